"""A test that other processes disturb runs again; where that fails, the error shows what it has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_tfperf.core.disturbance import DisturbanceLimits
from pytest_tfperf.core.settings import Settings
from tests.helpers.inner import NOT_MEASURED, Finished, Project
from tests.helpers.patience import running

pytestmark = pytest.mark.slow  # a process takes all idle time for as long as the session lasts

SLEEPING = "nets:sleeping-b{}-replicated-device"

TESTS = """
    def sleeping(batch_size):
        return tiny(batch_size, "nets:sleeping")

    def test_is_disturbed_when_it_runs_again(throughput, on):
        throughput.check(sleeping(1), on=on)

    def test_loses_its_worker_when_it_runs_again(throughput, on):
        throughput.check(tiny(1, "nets:once"), on=on)

    def test_measures_while_disturbed(throughput, on):
        throughput.measure(sleeping(2), on=on)
"""


@pytest.fixture(scope="module")
def busy(played: Project) -> Iterator[Finished]:
    """A session beside a process that takes all idle time, where hardly any such work is accepted."""
    played.tests(TESTS)
    for workload in (SLEEPING.format(1), "nets:once-b1-replicated-device"):
        played.baseline(workload, value=1e12)
    limits = DisturbanceLimits(other_cpu_fraction=0.001, idle_fraction=1)  # it counts beside idle cores, too
    with (
        pytest.MonkeyPatch.context() as patch,
        running("import os; os.nice(19)\nwhile True: pass"),
    ):  # others keep theirs
        patch.setattr(Settings, "disturbance_limits", limits)
        yield played.run()


INVALID = " on * INVALID: other processes used * of * core*, the busiest was "


@pytest.mark.parametrize(
    ("test", "why"),
    [
        (
            "is_disturbed_when_it_runs_again",
            f"sleeping-b1-replicated-device{INVALID}*(each of 3 fresh runs was disturbed)",
        ),
        ("loses_its_worker_when_it_runs_again", "once-b1-replicated-device on *was ended by SIGKILL*"),
        ("measures_while_disturbed", f"sleeping-b2-replicated-device{INVALID}*"),
    ],
)
def test_what_could_not_be_measured_says_why(busy: Finished, test: str, why: str) -> None:
    pytest.LineMatcher(busy.cases[f"test_{test}"].text.splitlines()[:1]).fnmatch_lines([why])


def test_what_could_not_be_measured_is_counted(busy: Finished) -> None:
    assert "\n3 not measured: " in busy.text.partition("= throughput =")[2]


def test_what_could_not_be_measured_is_an_error_and_neither_regressed_nor_in_doubt(busy: Finished) -> None:
    assert (set(busy.kinds.values()), busy.status) == ({"error"}, NOT_MEASURED), busy.text
    assert "INCONCLUSIVE" not in busy.text


def test_the_advice_names_the_setting(busy: Finished) -> None:
    assert "  next        end the other processes" in busy.cases["test_measures_while_disturbed"].text


@pytest.mark.parametrize(
    ("test", "model"),
    [("is_disturbed_when_it_runs_again", "sleeping"), ("loses_its_worker_when_it_runs_again", "once")],
)
def test_the_run_before_the_error_is_shown(busy: Finished, test: str, model: str) -> None:
    lines = busy.cases[f"test_{test}"].text.splitlines()
    before = f"  before      {model}-b1-replicated-device on * images/s *slower than 1,000,000,000,000"
    pytest.LineMatcher(lines).fnmatch_lines([before])


def test_the_run_before_the_error_is_in_the_history_undecided(busy: Finished, played: Project) -> None:
    assert [(row["runs"], row["outcome"]) for row in played.history.rows()] == [(1, None)] * 2
