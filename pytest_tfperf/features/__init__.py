"""What hangs on the spine: one folder each, found by reading this folder."""
