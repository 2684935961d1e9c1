"""Several nodes.

For teams that train on more than one machine.
It starts a session's ranks there (`--tfperf-launcher`): by mpirun, Slurm, Ray, or something outside of pytest.
"""
