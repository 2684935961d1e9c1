"""A launcher that names its nodes: a host file with a fault, and tests that need more nodes than there are."""

from __future__ import annotations

import os

import pytest
from inner import NOT_MEASURED, Project

USAGE_ERROR = 4


@pytest.fixture
def path(project: Project) -> str:
    """A PATH with an mpirun, which is looked for and never called here."""
    mpirun = project.write("bin/mpirun", "#!/bin/sh\ntouch called\n")
    mpirun.chmod(0o755)
    project.tests(
        """
        @pytest.mark.multinode
        @pytest.mark.parametrize("nodes", [3])
        def test_three(throughput, gpu_topology, nodes):
            workload = tiny(4, variable_update="collective")
            throughput.check(workload, on=gpu_topology.nodes(nodes).take(1))

        @pytest.mark.multinode
        def test_twice(throughput, gpu_topology):
            gpu_topology.nodes(2).take(1, nodes=3)
        """
    )
    return f"{mpirun.parent}{os.pathsep}{os.environ['PATH']}"


def test_a_fault_of_a_host_file_is_a_usage_error_with_its_line_before_the_first_test(
    project: Project, path: str
) -> None:
    hosts = project.write("hosts", "nodea slots=2\nnot a host!! slots=abc\n")
    finished = project.run("--tfperf-launcher=mpirun --hostfile hosts", PATH=path)
    assert finished.status == USAGE_ERROR, finished.text
    assert f"{hosts.name}:2: 'a' is nothing that mpirun takes there" in finished.text
    assert (finished.cases, (project.folder / "called").exists()) == ({}, False)


@pytest.mark.parametrize(
    ("arguments", "status", "kind"), [((), 0, "skipped"), (("--tfperf-require-baseline",), NOT_MEASURED, "error")]
)
def test_too_few_nodes_of_a_launcher_skip_a_test_and_are_an_error_to_the_nightly_gate(
    project: Project, path: str, arguments: tuple[str, ...], status: int, kind: str
) -> None:
    launcher = "--tfperf-launcher=mpirun -H nodea:2,nodeb:2"
    finished = project.run(launcher, "-k", "test_three", *arguments, PATH=path)
    (case,) = finished.cases.values()
    assert (finished.status, case.kind) == (status, kind), finished.text
    assert "needs 3 nodes, and --tfperf-launcher knows of 2" in case.message + case.text


def test_two_numbers_of_nodes_are_an_error(project: Project, path: str) -> None:
    finished = project.run("--tfperf-launcher=mpirun -H nodea,nodeb,nodec", "-k", "test_twice", PATH=path)
    (case,) = finished.cases.values()
    assert (finished.status, case.kind) == (NOT_MEASURED, "error"), finished.text
    assert "nodes=3 after nodes(2): give the number of nodes once" in case.message + case.text
