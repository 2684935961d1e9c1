"""A history for several machines, on a PostgreSQL server.

For teams with a fleet.
Each session sends its measurements at its end (ini `tfperf_history_url`), and `tfperf history push` sends the rest.
"""
