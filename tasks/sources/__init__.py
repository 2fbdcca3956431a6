"""Trace formats: an adapter each; `fetch(window)` does I/O, `spans(raw)` is pure and gives the canonical span record."""
