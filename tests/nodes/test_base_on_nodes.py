"""`--tfperf-base` on several nodes: the ranks of the base train the base's model."""

from __future__ import annotations

import pytest
from inner import Project
from launchers import LOCAL, Launcher
from repositories import Repository

# Each step of the base waits, which no load of the machine hides.
MODELS = """
import nets
def changed():
    return nets._dense(nets.EachStep(lambda: nets.time.sleep({seconds})))
"""
TESTS = """
@pytest.mark.multinode
def test_changed(throughput, gpu_topology):
    workload = tiny(4, model="models:changed", variable_update="collective")
    throughput.check(workload, on=gpu_topology.nodes(2).take(1), tolerance=0.3)
"""


@pytest.mark.parametrize("launcher", ["local", "mpirun"])
def test_each_side_trains_the_model_of_its_commit(
    project: Project, launcher: str, request: pytest.FixtureRequest
) -> None:
    chosen: Launcher = LOCAL if launcher == "local" else request.getfixturevalue(launcher)
    project.write("models.py", MODELS.format(seconds=0.2))
    repository = Repository(project, TESTS)
    repository.git("switch", "--quiet", "--create", "faster")
    project.write("models.py", MODELS.format(seconds=0))
    repository.commit("faster")
    options = ("--tfperf-base=main", "-o", "tfperf_steps=4", "-o", "pythonpath=.")
    session = project.run("perf_tests", *options, *chosen.options, **chosen.variables)
    properties = dict(session.cases["test_changed"].properties)
    assert properties.get("tfperf_outcome") == "IMPROVED", session.text
