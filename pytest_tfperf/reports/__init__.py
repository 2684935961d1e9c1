"""Pure functions: records in, text out."""
