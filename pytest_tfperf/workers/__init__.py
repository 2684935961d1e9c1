"""How training starts and ends: launchers, the wire to the workers, failures."""
