"""Figures beside the throughput for a whole suite: peak memory, the first step, the loss, compilations.

For teams that want every check to gate them.
`tfperf_also` adds figures to every check.
"""
