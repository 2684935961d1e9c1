"""What all tests of a session have in common."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.verdict import Noise
from pytest_tfperf.judging.session_effects import (
    FIRST_WINDOWS,
    MIN_TESTS,
    NoiseOfChanges,
    change_of_others,
    common_drift,
    noise_of_changes,
    of_first_windows,
)
from tests.helpers.measurements import run


def test_fewer_than_eight_tests_have_nothing_in_common() -> None:
    found = common_drift([-0.1] * (MIN_TESTS - 1))
    assert (found.log, found.tests, found.is_known) == (0.0, MIN_TESTS - 1, False)


def test_the_drift_is_the_median_over_tests() -> None:
    found = common_drift([-0.02] * 5 + [0.3] * 4)
    assert (found.log, found.tests, found.is_known) == (-0.02, 9, True)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], None),
        ([-0.1], None),
        ([-0.1, -0.2, -0.3], -0.2),
        ([-0.1] * (MIN_TESTS - 2), -0.1),
        ([-0.1] * MIN_TESTS, None),
    ],
)
def test_what_the_others_did_is_known_where_there_are_some_and_no_common_drift(
    others: list[float], expected: float | None
) -> None:
    assert change_of_others(others) == expected


@given(st.lists(st.floats(-0.3, 0.3), min_size=MIN_TESTS, max_size=30), st.floats(-0.2, 0.2))
def test_what_happens_to_all_tests_moves_the_drift_by_as_much(changes: list[float], more: float) -> None:
    before, after = common_drift(changes), common_drift([change + more for change in changes])
    assert after.log == pytest.approx(before.log + more)
    assert after.error == pytest.approx(before.error)


@pytest.mark.parametrize("count", [8, 20, 50])
def test_where_half_of_the_tests_lost_something_the_drift_is_that_of_the_others(count: int) -> None:
    around = [(-1) ** number * 0.004 for number in range(count // 2)]
    found = common_drift([*around, *(change - 0.1 for change in around)], noise=NoiseOfChanges(0.012, 0.0))
    assert found.log == pytest.approx(0.0, abs=0.005)
    assert (found.tests, found.growth) == (count, 1.0)


@pytest.mark.parametrize(("deviations", "drift"), [(3, 0.0), (2, -0.01)])
def test_groups_that_noise_may_explain_are_one(deviations: int, drift: float) -> None:
    apart = 0.02 / deviations
    changes = [0.0] * 10 + [-0.02] * 10
    assert common_drift(changes, noise=NoiseOfChanges(apart, 0.0)).log == pytest.approx(drift)


def test_the_noise_of_a_change_is_that_of_the_runs_of_a_typical_row_and_of_what_else_differs() -> None:
    rows = [(Noise(between_runs=sd, degrees_of_freedom=20, rows=9), 10**6) for sd in (0.001, 0.01, 0.1)]
    noise = noise_of_changes(rows, within_runs=0.003, between_sessions=0.004)
    assert (noise.of_runs, noise.others) == (pytest.approx(0.01, rel=0.01), pytest.approx(0.005))
    assert NoiseOfChanges(0.03, 0.04).total == pytest.approx(0.05)


def test_of_two_groups_the_one_nearer_to_the_baselines_counts() -> None:
    gained, slower = [0.06] * 10, [-0.02] * 10
    assert common_drift(gained + slower, noise=NoiseOfChanges(0.01, 0.0)).log == -0.02


def test_a_machine_that_slows_tests_down_more_or_less_has_one_drift() -> None:
    changes = [-0.08 * (0.3 + 0.9 * number / 23) for number in range(24)]
    assert common_drift(changes, noise=NoiseOfChanges(0.012, 0.0)).log == pytest.approx(-0.06, abs=0.001)


@pytest.mark.parametrize(("times", "growth"), [(1.0, 1.0), (1.4, 1.0), (5.0, 5.0)])
def test_tests_that_scatter_more_than_their_noise_explains_show_its_growth(times: float, growth: float) -> None:
    noise = 0.01
    spread = [times * noise * quantile for quantile in (-1.5, -0.9, -0.6745, -0.2, 0.2, 0.6745, 0.9, 1.5)]
    assert common_drift(spread, NoiseOfChanges(noise, 0.0)).growth == pytest.approx(growth, rel=0.25)


def test_only_what_runs_do_grows_and_not_what_windows_leave_uncertain() -> None:
    noise = NoiseOfChanges(of_runs=0.01, others=0.01)
    scattered = (0.01**2 + (5 * 0.01) ** 2) ** 0.5
    assert noise.growth(scattered) == pytest.approx(5)
    assert noise.growth(noise.total) == 1


def test_four_times_as_many_tests_halve_the_error_of_the_drift() -> None:
    changes = [-0.03, -0.02, -0.01, 0.0, 0.0, 0.01, 0.02, 0.03]
    assert common_drift(changes * 4).error == pytest.approx(common_drift(changes).error / 2)
    assert common_drift(changes).error == pytest.approx(0.0222 * 1.2533 / 8**0.5, rel=0.01)


@pytest.mark.parametrize("later", [0.5, 0.05])
def test_a_run_counts_by_its_first_windows_however_long_it_went_on(later: float) -> None:
    """A run stops early on good news only: its whole value would be better than the machine is."""
    first = run([0.1] * FIRST_WINDOWS + [later] * 30, examples_per_step=1)
    assert of_first_windows(first).examples_per_sec == pytest.approx(10.0)


def test_a_burst_that_slows_a_few_of_the_first_windows_is_no_drift() -> None:
    first = run([0.1] * 17 + [0.3] * 3, examples_per_step=1)
    assert of_first_windows(first).examples_per_sec == pytest.approx(10.0)
