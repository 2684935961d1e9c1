"""The lines of a program that can be read, the rate that `check` would report, and what would read others.

For users who gate a program of their own, and first want to see which of its lines have a rate.
`tfperf read`; a session is not touched.
"""
