"""The only home of tensorflow: what runs in the worker process. Nobody imports it; launchers start it by name."""
