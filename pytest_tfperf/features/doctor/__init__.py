"""Whether this machine is fit to measure.

For a machine's first day, and for a day on which figures look odd.
`tfperf doctor`; a session is not touched.
"""
