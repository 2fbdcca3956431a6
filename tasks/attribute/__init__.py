"""Name the layers that may be at fault, with evidence."""
