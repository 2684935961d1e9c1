"""The machines that have baselines, rows that are out of date, measured changes, and files that two branches recorded.

For maintainers of a folder of baselines.
`tfperf baselines stale`, `merge` and `accept`; `--tfperf-accept` takes the runs that an accepted row lacks. At its end
a session names rows of figures that no test asks for any more, and proposes `tfperf baselines accept --gains`.
"""
