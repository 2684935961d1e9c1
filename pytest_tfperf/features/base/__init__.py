"""A pull request against its base: is this branch slower than the commit where it began?

For teams that have no quiet machine and commit no baselines.
With `--tfperf-base` each check is a comparison with the code of the merge base, in place of a baseline.
"""
