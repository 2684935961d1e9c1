"""Files on disk: baselines, the history, exported measurements, and the reading of users' logs."""
