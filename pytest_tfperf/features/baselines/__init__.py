"""The machines that have baselines, and rows that are out of date."""
