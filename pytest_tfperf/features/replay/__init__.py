"""Logs of tf_cnn_benchmarks and exported measurements, judged as a session would."""
