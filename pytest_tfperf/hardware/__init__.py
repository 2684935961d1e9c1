"""Discovery and sampling of the machine; NVML is imported when it is first used."""
