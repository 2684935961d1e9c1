"""Two sessions, exports or revisions of baselines, side by side.

For the question what moved between two dates by more than noise explains.
`tfperf compare`; with a tolerance it is a gate. A session is not touched.
"""
