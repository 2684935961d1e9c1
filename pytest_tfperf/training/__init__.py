"""The only home of TensorFlow: what runs in worker processes. No other room imports it; launchers start it by name.

`server` forks workers, `worker` does a job, `loop` times steps. A model is one file in `models/`, an input pipeline one
file in `pipelines/`.
"""
