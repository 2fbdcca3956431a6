"""Inspect's evaluation logs: one JSON object, or the zip that `.eval` is."""
