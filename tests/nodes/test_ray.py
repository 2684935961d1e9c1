"""A real Ray cluster of two nodes on this machine."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from inner import Project

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'ray>=2.40'"
)

# Else Ray looks for the cluster at another address of this machine.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}

CLUSTER = """
import sys
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
print("address", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""

TEST = """
    @pytest.mark.multinode
    def test_it(throughput, gpu_topology):
        workload = tiny(4, variable_update="collective")
        throughput.check(workload, on=gpu_topology.nodes(2).take(1))
"""


@pytest.fixture
def address() -> Iterator[str]:
    environment = {**os.environ, **LOOPBACK, "RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
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


def test_ranks_run_in_the_tasks_of_a_ray_cluster(project: Project, address: str) -> None:
    project.tests(TEST)
    finished = project.run(f"--tfperf-launcher=ray --address={address}", "-o", "tfperf_timeout=120", **LOOPBACK)
    case = finished.cases["test_it"]
    assert (case.kind, " measured in " in finished.text) == ("passed", True), finished.text
    assert "2x1" in finished.text
