"""A pull request against its base: is this branch slower than the one that it goes into?

For teams that have no quiet machine and commit no baselines.
It gives a session the code of the merge base as the other side of each check (`--tfperf-base`).
"""
