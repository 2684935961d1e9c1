"""Two workloads or two environments, and ratios."""
