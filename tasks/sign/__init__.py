"""Give every failing trace its keys and signature."""
