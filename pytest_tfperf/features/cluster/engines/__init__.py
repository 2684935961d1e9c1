"""One file for each launcher."""
