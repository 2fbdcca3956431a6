"""Find violated invariants and detector hits in recorded runs."""
