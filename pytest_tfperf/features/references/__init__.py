"""Old packages and code, kept runnable.

For everybody: a suspected slowdown is confirmed beside the environment in which its baseline was recorded.
It gives a session these environments, and `tfperf reference` builds, lists and removes them.
"""
