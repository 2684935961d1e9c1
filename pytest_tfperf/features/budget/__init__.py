"""The most informative tests that fit into a time."""
