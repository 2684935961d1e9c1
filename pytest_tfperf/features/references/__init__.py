"""Old packages and code, kept runnable.

For everybody: suspected slowdowns are confirmed beside the environments in which the baselines were recorded.
It provides these environments to a session, and `tfperf reference` builds, lists and removes them.
"""
