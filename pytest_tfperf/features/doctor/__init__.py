"""Whether this machine is fit to measure.

For a machine's first day, and for a day with odd figures.
`tfperf doctor`; a session is not touched.
"""
