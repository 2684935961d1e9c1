"""Reports: pure functions from measurements to text."""
