"""Pull a window of a source and account for every span in it."""
