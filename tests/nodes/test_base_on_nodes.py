"""`--tfperf-base` on several nodes: the ranks of the base train the base's model."""

from __future__ import annotations

from pathlib import Path

import pytest
from launchers import LOCAL, Launcher

from tests.helpers.inner import Project
from tests.helpers.repositories import Repository

# Each rank notes whose model it builds.
MODELS = """
import os
import nets
def changed():
    with open({notes!r}, "a") as file:
        print("{side}", os.getpid(), file=file)
    return nets.tiny()
"""
TESTS = """
@pytest.mark.multinode
def test_changed(throughput, gpu_topology):
    workload = tiny(4, model="models:changed", variable_update="collective")
    throughput.check(workload, on=gpu_topology.nodes(2).take(1))
"""


@pytest.mark.parametrize("launcher", ["local", "mpirun", "srun", "ray"])
def test_each_rank_builds_the_model_of_its_side(
    project: Project, tmp_path: Path, launcher: str, request: pytest.FixtureRequest
) -> None:
    chosen: Launcher = LOCAL if launcher == "local" else request.getfixturevalue(launcher)
    notes = tmp_path / "notes"
    project.write("models.py", MODELS.format(notes=str(notes), side="base"))
    repository = Repository(project, TESTS)
    repository.git("switch", "--quiet", "--create", "changed")
    project.write("models.py", MODELS.format(notes=str(notes), side="head"))
    repository.commit("changed")
    options = ("--tfperf-base=main", "-o", "tfperf_steps=1", "-o", "tfperf_tolerance=0.5", "-o", "pythonpath=.")
    session = project.run("perf_tests", *options, *chosen.options, **chosen.variables)
    assert session.kinds["test_changed"] == "passed", session.text
    sides = [line.split()[0] for line in dict.fromkeys(notes.read_text().splitlines())]
    assert min(sides.count("base"), sides.count("head")) >= 2, session.text
