"""The search for the commit, or the package, that made a test slower, by comparisons that may be wrong.

For engineers who get the morning's alert.
It adds `tfperf bisect`, each step of which is a session that compares a state with the good one.
"""
