"""The files that a project starts with."""
