"""Pure functions: measurements in, text out."""
