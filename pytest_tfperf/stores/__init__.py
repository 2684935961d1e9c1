"""What is kept on disk: baselines, the history, exported measurements, and logs that others wrote."""
