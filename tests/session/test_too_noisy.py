"""Noise that would let a loss of a quarter pass has an outcome of its own, and the nightly gate is not green."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.inner import NOT_MEASURED, Finished, Project

EVEN = "nets:even-b4-replicated-device"

TESTS = """
    def test_even(throughput, on):
        throughput.check(tiny(4, "nets:even"), on=on)
"""


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Its only row rests on two runs: Student's t with one degree of freedom explains nearly anything."""
    with Project(tmp_path_factory.mktemp("noisy") / "project", trains=False) as project:
        project.tests(TESTS)
        project.write("even", "25.0")
        project.baseline(EVEN, value=4 / 20, runs=2, between_runs=0.02)
        yield project


@pytest.fixture(scope="module")
def by_day(two_runs: Project) -> Finished:
    return two_runs.run()


@pytest.fixture(scope="module")
def nightly(two_runs: Project) -> Finished:
    return two_runs.run("--tfperf-require-baseline")


def test_the_table_names_it(by_day: Finished) -> None:
    assert "\nTOO_NOISY  even-b4-replicated-device " in by_day.text
    assert "box: 1 TOO_NOISY in " in by_day.text


def test_it_passes_with_a_warning_that_says_why(by_day: Finished) -> None:
    assert (by_day.status, by_day.kinds) == (0, {"test_even": "passed"})
    assert "too noisy to judge: noise widens the threshold" in by_day.text
    assert "within the tolerance" not in by_day.text


def test_the_nightly_gate_could_not_measure_it(nightly: Finished) -> None:
    assert (nightly.status, nightly.kinds) == (NOT_MEASURED, {"test_even": "error"})
    assert nightly.cases["test_even"].message == 'failed on setup with "TOO_NOISY: 20.0 % slower than 0.2 images/s"'


def test_a_refused_recording_is_no_reference_for_the_next_session(played_project: Project) -> None:
    played_project.tests(TESTS.replace("even", "uneven"))
    played_project.write("uneven", "2 30 2 30 2")
    assert "1 refused" in played_project.run("--update-baselines").text
    assert "\nNO_BASELINE " in played_project.run().text
