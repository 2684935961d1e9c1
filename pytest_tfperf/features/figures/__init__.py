"""Figures beside the throughput for a whole suite: peak memory, the first step, the loss.

For teams that want every check to gate them.
It sets those that tests do not name themselves (`tfperf_also`), and names baselines that no test asks for any more.
"""
