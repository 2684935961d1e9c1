"""Ranks in the tasks of a real Ray cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from launchers import Launcher
from ray_cluster import LOOPBACK, cluster

from tests.helpers.inner import Project

TEST = """
    @pytest.mark.multinode
    def test_it(throughput, gpu_topology):
        workload = tiny(4, variable_update="collective")
        throughput.check(workload, on=gpu_topology.nodes(2).take(1))
"""


def test_ranks_run_in_the_tasks_of_a_ray_cluster(project: Project, ray: Launcher) -> None:
    project.tests(TEST)
    finished = project.run(*ray.options, **ray.variables)
    case = finished.cases["test_it"]
    assert (case.kind, " measured in " in finished.text) == ("passed", True), finished.text
    assert "2x1" in finished.text


@pytest.mark.usefixtures("needs_ray")
def test_ranks_of_a_job_on_gpus_run_on_the_nodes_that_have_them(tmp_path: Path) -> None:
    rank = ["sh", "-c", f"echo $CUDA_VISIBLE_DEVICES > {tmp_path}/$TFPERF_RANK"]
    with cluster(1, 0, 1) as found:
        command = [sys.executable, "-m", "pytest_tfperf.features.cluster.engines.ray", f"--address={found}"]
        wanted = ["--nodes=2", "--ranks-per-node=1", "--gpus=1", "--"]
        done = subprocess.run([*command, *wanted, *rank], env=os.environ | LOOPBACK, check=False)
    assert done.returncode == 0
    assert [(tmp_path / name).read_text() for name in "01"] == ["0\n"] * 2
