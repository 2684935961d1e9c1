"""What a measurement is held against, and what an outcome does to its test and to the session."""
