"""Rows of figures that no test asks for any more."""

from __future__ import annotations

import pytest

from pytest_tfperf.core.baseline import Baseline, Key
from tests.helpers.inner import ANY_THROUGHPUT, MACHINE, Finished, Project

WORKLOAD = "nets:tiny-b{}-replicated-device"


@pytest.fixture
def project(played_project: Project) -> Project:
    """Two tests that ask for no figure, each with a row of one."""
    played_project.tests("""
        @pytest.mark.parametrize("batch", [1, 2])
        def test_it(throughput, on, batch):
            throughput.check(tiny(batch), on=on)
    """)
    for batch in (1, 2):
        played_project.baseline(WORKLOAD.format(batch), **ANY_THROUGHPUT)
        key = Key(WORKLOAD.format(batch), "1x1", "peak_memory")
        played_project.baselines.update(MACHINE, {key: Baseline(machine=MACHINE, key=key, value=1e9, unit="bytes")})
    return played_project


def stale(session: Finished) -> list[int]:
    """The batch sizes of the workloads whose rows the session calls stale."""
    lines = [line for line in session.text.splitlines() if "is stale" in line]
    return [batch for batch in (1, 2) if any(WORKLOAD.format(batch) in line for line in lines)]


def test_each_row_that_no_test_of_the_session_asks_for_is_named(project: Project) -> None:
    assert stale(project.run()) == [1, 2]


def test_the_rows_of_tests_that_did_not_run_are_not_called_stale(project: Project) -> None:
    assert stale(project.run("-k", "test_it[2]")) == [2]


def test_a_row_that_the_whole_suite_asks_for_is_not_stale(project: Project) -> None:
    assert stale(project.run("-o", "tfperf_also=peak_memory")) == []


def test_a_smoke_run_names_no_row(project: Project) -> None:
    assert stale(project.run("--tfperf-smoke")) == []
