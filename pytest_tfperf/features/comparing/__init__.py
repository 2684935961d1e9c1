"""Two environments, side by side, and ratios of two workloads.

For teams that upgrade TensorFlow, and for what documents say of scaling on other machines than theirs.
It says which Python each check is compared with (`--tfperf-against`), and holds ratios for `throughput.check_ratio`.
"""
