"""A comparison of two Pythons.

For teams that upgrade TensorFlow.
With `--tfperf-against` each check is a comparison with another Python, in place of a baseline.
"""
