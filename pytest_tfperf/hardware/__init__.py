"""Discovery of the machine and (in time) its samplers; nothing here imports NVML before it is asked."""
