"""Several nodes.

For teams that train on more than one machine. It starts ranks by mpirun, Slurm, Ray or something outside of pytest.
"""
