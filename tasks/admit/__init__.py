"""Decide which traces become cases, members, held or discarded."""
