"""Under pytest-xdist the throughput tests, and only they, skip: workers side by side would measure each other."""

from __future__ import annotations

import pytest
from inner import Finished, Project


def fill(project: Project) -> None:
    project.write(
        "test_it.py",
        """
        import pytest
        from pytest_tfperf import Workload

        @pytest.mark.cpu
        def test_throughput(throughput, gpu_topology):
            throughput.check(Workload(model="nets:tiny", batch_size=1), on=gpu_topology.take(1))

        def test_other():
            pass
        """,
    )


@pytest.fixture(scope="module")
def distributed(shared: Project) -> Finished:
    fill(shared)
    return shared.run("-n2")


def test_throughput_tests_skip_and_others_run(distributed: Finished) -> None:
    assert distributed.kinds == {"test_throughput": "skipped", "test_other": "passed"}


def test_the_skip_says_why_and_what_to_do(distributed: Finished) -> None:
    case = distributed.cases["test_throughput"]
    assert "not measured under pytest-xdist" in case.message
    assert "without -n" in case.message


@pytest.fixture(scope="module")
def night(shared: Project) -> Finished:
    fill(shared)
    return shared.run("-n2", "--tfperf-require-baseline")


def test_the_nightly_gate_fails_throughput_tests_and_no_others(night: Finished) -> None:
    assert night.kinds == {"test_throughput": "failure", "test_other": "passed"}


def test_the_nightly_gates_exit_status_is_that_of_failures(night: Finished) -> None:
    assert night.status == 1


def test_the_nightly_gate_says_why_in_one_line(night: Finished) -> None:
    assert night.cases["test_throughput"].text.startswith("throughput is not measured under pytest-xdist")


def test_one_process_is_no_distribution(project: Project) -> None:
    project.write("test_it.py", "def test_it(throughput): pass")
    assert project.run("-n0").kinds == {"test_it": "passed"}
