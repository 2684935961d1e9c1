"""What is read from a program's output.

For who wants to gate a program of their own, and first sees which of its lines have a rate.
`tfperf read`; a session is not touched.
"""
