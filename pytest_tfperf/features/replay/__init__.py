"""Logs of tf_cnn_benchmarks and exported measurements, judged as if they were measured now.

For users who have logs, and no time to measure again.
`tfperf replay`; a session is not touched.
"""
