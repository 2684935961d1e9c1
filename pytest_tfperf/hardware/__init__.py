"""Discovery and sampling of the machine; NVML is imported only when it is used."""
