"""`--update-baselines` of one test: other recorded workloads run beside it, as controls."""

from __future__ import annotations

import pytest

from pytest_tfperf.core.baseline import Key
from tests.helpers.inner import MACHINE, Finished, Project

EVEN = Key("nets:even-b4-replicated-device", "1x1")
CONTROL = Key("nets:uneven-b3-replicated-device", "1x1")
BROKEN = Key("nets:raising-b4-replicated-device", "1x1")

TESTS = """
    def test_even(throughput, on):
        throughput.check(tiny(4, "nets:even"), on=on)
"""


@pytest.fixture
def project(played_project: Project) -> Project:
    played_project.tests(TESTS)
    played_project.write("even", "20.9 20.8 20.6 21.0 20.9")
    played_project.write("uneven", "10.4")
    return played_project


def recorded(project: Project) -> Finished:
    return project.run("--update-baselines")


def test_the_row_is_corrected_by_what_the_controls_lost(project: Project) -> None:
    project.baseline(CONTROL.workload, value=3 / 10, runs=5, between_runs=0.01)
    finished = recorded(project)
    row = project.baselines.load(MACHINE)[EVEN]
    assert row.value == pytest.approx(4 / 20, rel=0.01), finished.text
    assert row.note.endswith("corrected by +4.0 % by 6 runs of controls")
    assert (
        "tfperf: few tests, so up to 3 other recorded workloads run before each round and at the end" in finished.text
    )
    assert (
        "new rows of box: corrected by +4.0 %, because meanwhile 1 other recorded workload changed by -3.8 % "
        "against their rows, in the median of 6 runs: nets:uneven-b3-replicated-device"
    ) in finished.text
    assert "recorded in baselines/: 1 new, 0 changed" in finished.text
    assert "recorded apart" not in finished.text


def test_a_slowdown_of_a_whole_small_project_can_be_accepted_test_by_test(project: Project) -> None:
    project.baseline(CONTROL.workload, value=3 / 9, runs=5, between_runs=0.01)
    finished = recorded(project)
    row = project.baselines.load(MACHINE)[EVEN]
    assert row.value == pytest.approx(4 / 20.9, rel=0.01)
    assert row.note.endswith("not corrected, although controls changed by -13.5 %")
    assert "new rows of box: not corrected, although meanwhile 1 other recorded workload changed" in finished.text


def test_a_control_that_can_not_run_costs_no_recording(project: Project) -> None:
    project.baseline(BROKEN.workload, value=1.0, runs=5, between_runs=0.01)
    finished = recorded(project)
    row = project.baselines.load(MACHINE)[EVEN]
    assert (finished.status, row.note.endswith("recorded without controls")) == (0, True)
    assert row.value == pytest.approx(4 / 20.9, rel=0.01)
    assert "nets:raising-b4-replicated-device could not serve as a control: " in finished.text


def test_a_first_recording_of_few_tests_says_what_it_lacks(project: Project) -> None:
    finished = recorded(project)
    assert project.baselines.load(MACHINE)[EVEN].note.endswith("recorded without controls")
    assert (
        "new rows of box: recorded without controls, because no other workload has a row: what the machine did in "
        "these minutes, such as its temperature, is part of them\n"
    ) in finished.text
    assert "To record all alike" not in finished.text
    assert "few tests" not in finished.text


def test_to_record_all_is_advised_where_others_have_rows_that_can_not_be_controls(project: Project) -> None:
    project.baseline("a-program", value=3.0, unit="images", runs=5, between_runs=0.01)
    said = recorded(project).text
    assert "recorded without controls, because none of the 1 other with a row could run beside them" in said
    assert "To record all alike: pytest --update-baselines" in said
