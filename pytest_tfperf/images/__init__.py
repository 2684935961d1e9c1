"""Real images: where they lie, the schema of their TFRecords, and a small data set of them."""
