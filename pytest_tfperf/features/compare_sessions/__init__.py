"""Two sessions, exports or revisions of baselines, side by side.

For teams that ask which tests moved between two dates by more than noise explains.
`tfperf compare`; with a tolerance it is a gate. It takes no part in a session.
"""
