"""A history that travels: a git branch, a folder, an object store or a PostgreSQL server keeps it.

For runners that are new each night, and for teams with a fleet. Each session's document is one file that never changes
(`tfperf_history_url`).
"""
