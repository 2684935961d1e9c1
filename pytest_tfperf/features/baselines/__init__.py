"""The machines that have baselines, and rows that are out of date.

For whoever looks after a folder of baselines.
`tfperf baselines list` and `tfperf baselines stale`; a session is not touched.
"""
