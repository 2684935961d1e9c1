"""A launcher that names its nodes: a host file with a fault, and tests that need more nodes than there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.inner import NOT_MEASURED

TESTS = """
    import pytest
    from pytest_tfperf import Workload

    pytestmark = pytest.mark.multinode

    @pytest.mark.parametrize("nodes", [3])
    def test_three(throughput, gpu_topology, nodes):
        workload = Workload(model="trivial", batch_size=4, variable_update="collective")
        throughput.check(workload, on=gpu_topology.nodes(nodes).take(1))

    def test_twice(throughput, gpu_topology):
        gpu_topology.nodes(2).take(1, nodes=3)
"""


@pytest.fixture(autouse=True)
def mpirun(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """On PATH, where it is looked for; it is never called here."""
    program = pytester.mkdir("bin") / "mpirun"
    program.write_text("#!/bin/sh\ntouch called\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    pytester.makeini("[pytest]\ntfperf_machine = box\n")
    pytester.makepyfile(test_it=TESTS)
    return program


def test_a_fault_of_a_host_file_is_a_usage_error_with_its_line_before_the_first_test(
    pytester: pytest.Pytester,
) -> None:
    Path("hosts").write_text("nodea slots=2\nnot a host!! slots=abc\n")
    with pytest.raises(pytest.UsageError, match="hosts:2: mpirun takes no 'not a host!! slots=abc'"):
        pytester.parseconfigure("--tfperf-launcher=mpirun --hostfile hosts")
    assert not Path("called").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "counts"),
    [((), 0, {"skipped": 1}), (("--tfperf-require-baseline",), NOT_MEASURED, {"errors": 1})],
)
def test_too_few_nodes_of_a_launcher_skip_a_test_and_are_an_error_to_the_nightly_gate(
    pytester: pytest.Pytester, arguments: tuple[str, ...], status: int, counts: dict[str, int]
) -> None:
    result = pytester.runpytest("--tfperf-launcher=mpirun -H nodea:2,nodeb:2", "-rs", "-k", "test_three", *arguments)
    result.assert_outcomes(**counts, deselected=1)
    assert result.ret == status
    assert "needs 3 nodes, and --tfperf-launcher knows of 2" in result.stdout.str()


def test_two_numbers_of_nodes_are_an_error(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--tfperf-launcher=mpirun -H nodea,nodeb,nodec", "-k", "test_twice")
    assert result.ret == NOT_MEASURED
    assert "nodes=3 after nodes(2): give the number of nodes once" in result.stdout.str()
