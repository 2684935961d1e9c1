"""A performance gate for TensorFlow: train, measure images per second, hold it against committed baselines."""
