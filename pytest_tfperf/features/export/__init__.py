"""The history in another program's format.

For teams that watch their figures with Apache Otava.
`tfperf export`; a session is not touched.
"""
