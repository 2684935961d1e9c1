"""A history for several machines, on a PostgreSQL server."""
