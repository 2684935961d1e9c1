"""Whether this machine is fit to measure."""
