"""Two sessions, machines or revisions of baselines, side by side."""
