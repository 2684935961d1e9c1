"""The start and the end of training on this machine: launchers, the wire to the workers, failures."""
