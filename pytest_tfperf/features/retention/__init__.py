"""How long the history keeps whole measurements, which are most of its size.

For everybody: each session drops some of those older than 90 days (ini `tfperf_details_days`).
`tfperf history prune --details` drops all of them.
"""
