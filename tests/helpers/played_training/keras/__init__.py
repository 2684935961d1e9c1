"""See tensorflow beside it."""

__version__ = "3.15.0"
