"""Take away what has expired."""
