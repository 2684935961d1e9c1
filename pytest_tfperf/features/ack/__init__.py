"""Losses that the team knows of, each with a reason and an end, in a file beside the baselines.

For teams that can't fix a loss today, and don't want to lower its baseline.
`tfperf ack` writes the file. The summary names each loss, its end and its owner, and what is no longer needed.
"""
