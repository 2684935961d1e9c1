"""A real Ray cluster of several nodes on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Else Ray looks for the cluster at another address of this machine.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}

CLUSTER = """
import sys
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
for gpus in map(int, sys.argv[1:]):  # Ray believes it
    cluster.add_node(num_cpus=1, num_gpus=gpus)
print("address", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@contextmanager
def cluster(*gpus: int) -> Iterator[str]:
    """The address of a cluster of a head without GPUs and of nodes with so many."""
    environment = {**os.environ, **LOOPBACK, "RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER, *map(str, gpus)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        found: list[str] = []
        while not found and (line := process.stdout.readline()):
            found = line.split()[1:] if line.startswith("address ") else []
        yield found[0]
        process.communicate("")
