"""What hangs on the spine: one folder for each feature, found by reading this one."""
