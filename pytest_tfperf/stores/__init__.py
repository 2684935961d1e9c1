"""What is kept on disk: baselines, history, documents, logs."""
