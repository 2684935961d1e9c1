"""A real Ray cluster of two nodes on this machine."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
for gpus in map(int, sys.argv[1:]):  # Ray believes it
    cluster.add_node(num_cpus=1, num_gpus=gpus)
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


@pytest.fixture
def address() -> Iterator[str]:
    with cluster(0) as found:
        yield found


def test_ranks_run_in_the_tasks_of_a_ray_cluster(project: Project, address: str) -> None:
    project.tests(TEST)
    finished = project.run(f"--tfperf-launcher=ray --address={address}", "-o", "tfperf_timeout=120", **LOOPBACK)
    case = finished.cases["test_it"]
    assert (case.kind, " measured in " in finished.text) == ("passed", True), finished.text
    assert "2x1" in finished.text


def test_ranks_of_a_job_on_gpus_run_on_the_nodes_that_have_them(tmp_path: Path) -> None:
    rank = ["sh", "-c", f"echo $CUDA_VISIBLE_DEVICES > {tmp_path}/$TFPERF_RANK"]
    with cluster(1, 0, 1) as found:
        command = [sys.executable, "-m", "pytest_tfperf.features.cluster.engines.ray", f"--address={found}"]
        wanted = ["--nodes=2", "--ranks-per-node=1", "--gpus=1", "--"]
        done = subprocess.run([*command, *wanted, *rank], env=os.environ | LOOPBACK, check=False)
    assert done.returncode == 0
    assert [(tmp_path / name).read_text() for name in "01"] == ["0\n"] * 2
