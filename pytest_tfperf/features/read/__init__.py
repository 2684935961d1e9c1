"""The way in for a program of the user's own: its steps, what it prints beside them, and the whole test.

For users who gate a program of their own, and first want to see how it would be measured.
`tfperf read`; a session is not touched.
"""
