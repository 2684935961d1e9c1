"""The error rates of the gate, with the user's own tests on the user's own machine.

For teams that want to know how often a gate would be wrong before it may block anybody.
`tfperf trial` starts sessions of pytest; no session is touched.
"""
