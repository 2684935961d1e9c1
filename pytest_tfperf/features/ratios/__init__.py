"""Ratios of two workloads.

For what documents say of scaling on other machines than a team's, and for a team's own limits.
It is what `throughput.check_ratio` does.
"""
