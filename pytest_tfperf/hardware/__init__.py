"""Discovery of the machine and its samplers; nothing here imports NVML before it is asked."""
