"""A program of one's own on several nodes: the engine starts it there, and all ranks print into one pipe."""

from __future__ import annotations

import pytest
from launchers import Launcher

from tests.helpers.inner import Finished, Project
from tests.helpers.patience import wait_for

PROGRAM = """
import itertools, os, time

rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("SLURM_PROCID")
for number in itertools.count():
    if rank == "0":
        print(f"throughput: {50 + number % 3 / 10} examples/s")
    time.sleep(0.2)
"""

TESTS = """
import sys

def test_it(throughput, gpu_topology):
    on = gpu_topology.nodes(2).take(1)
    throughput.check(Command([sys.executable, "train.py"], name="it", reads=RATES), on=on)

def test_in_another_way(throughput, gpu_topology):
    on = gpu_topology.nodes(2).take(2)
    argv = [sys.executable, "-c", "import time; print(3); time.sleep(1); raise SystemExit('no data')"]
    throughput.check(Command(argv, name="it", reads=RATES, ranks_per_node=2), on=on)
"""


def session(project: Project, launcher: Launcher) -> Finished:
    project.write("train.py", PROGRAM)
    project.tests(TESTS)
    project.baseline("it", "2x1", value=50.0, unit="examples", lower=-0.2, runs=5, between_runs=0.001)
    return project.run("-o", "tfperf_steps=5", *launcher.options, **launcher.variables)


@pytest.mark.parametrize("name", ["mpirun", "srun"])
def test_a_program_runs_on_two_nodes_fails_with_its_output_and_leaves_nothing(
    name: str, project: Project, request: pytest.FixtureRequest
) -> None:
    finished = session(project, request.getfixturevalue(name))
    assert finished.kinds == {"test_it": "passed", "test_in_another_way": "error"}, finished.text
    assert finished.cases["test_in_another_way"].text.count("no data") >= 1
    assert wait_for(lambda: not project.processes()), project.processes()
