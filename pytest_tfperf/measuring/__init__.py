"""How one figure comes about: a worker driven, watched, taken again where it is worth nothing."""
