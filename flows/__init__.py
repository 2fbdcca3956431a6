"""The wiring: steps put in order and scheduled; no frame is touched here."""
