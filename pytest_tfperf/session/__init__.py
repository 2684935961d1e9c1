"""pytest's side: what a session of pytest measures, judges and shows."""
