"""Several nodes.

For teams that train on more than one machine.
It gives a session what starts ranks there (`--tfperf-launcher`): mpirun, Slurm, Ray, or something outside of pytest.
"""
