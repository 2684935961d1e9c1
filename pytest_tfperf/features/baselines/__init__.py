"""The machines that have baselines, rows that are out of date, and files that two branches recorded.

For maintainers of a folder of baselines.
`tfperf baselines list`, `tfperf baselines stale` and `tfperf baselines merge`; it takes no part in a session.
"""
