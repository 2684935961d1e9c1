"""The pictures of README.md and docs/, all drawn by `python -m tools.pictures`."""
