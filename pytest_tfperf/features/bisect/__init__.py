"""The commit, or the package, that lost the throughput: a search whose comparisons may be wrong.

For whoever gets the morning's alert.
It adds `tfperf bisect`, each step of which is a session that compares a state with the good one; and it gives a session
the exit status that `git bisect run` skips.
"""
