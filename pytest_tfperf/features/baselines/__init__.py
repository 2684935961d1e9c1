"""The machines that have baselines, rows that are out of date or became better, and files that two branches recorded.

For maintainers of a folder of baselines.
`tfperf baselines stale`, `merge` and `ratchet`; at its end a session names rows of figures that no test asks for any
more, and proposes `tfperf baselines ratchet`.
"""
