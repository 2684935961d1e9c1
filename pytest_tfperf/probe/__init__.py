"""What runs inside of a user's own Pythons: it tells each training step, and which files are read."""
