"""Changes of a history: what is a test's own, what is the machine's, and which measurements count."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from datetime import timedelta

import numpy as np
import pytest

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.past import ChangeKind, LastingChange, Value
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.judging.lasting_changes import _medians_of, changes_of, common_drifts
from tests.helpers.past_results import START, changed, past_figure, past_result, past_results, quiet_tests

SESSIONS, AT = 80, 50


def only(found: list[LastingChange]) -> LastingChange:
    assert len(found) == 1, found
    return found[0]


def test_without_results_there_is_no_change() -> None:
    assert changes_of([]) == []


def test_a_step_of_one_test_has_its_date_and_commits() -> None:
    series = quiet_tests(10, SESSIONS)
    series["test_3"][AT:] -= 0.03
    change = only(changes_of(past_results(series)))
    assert (change.test, change.key, change.kind) == ("test_3", Key("resnet50-b64", "1x1"), ChangeKind.STEP)
    assert (change.session, change.time[:10]) == (f"s{AT}", "2026-02-20")
    assert (change.commit_before, change.commit_after) == (f"c{AT - 1}", f"c{AT}")
    assert change.sessions_since == SESSIONS - AT
    assert change.low < change.size < change.high
    assert change.size == pytest.approx(-0.03, abs=0.005)


def test_what_happens_to_all_tests_is_reported_once_as_the_machine_s() -> None:
    series = {test: rates - 0.04 * (np.arange(SESSIONS) >= AT) for test, rates in quiet_tests(12, SESSIONS).items()}
    change = only(changes_of(past_results(series)))
    assert (change.test, change.key, change.session) == (None, None, f"s{AT}")
    assert change.size == pytest.approx(np.expm1(-0.04), abs=0.01)


def test_a_test_s_own_step_is_found_on_a_restless_machine() -> None:
    restless = np.random.default_rng(2).normal(0, 0.03, SESSIONS)
    series = {test: rates + restless for test, rates in quiet_tests(12, SESSIONS).items()}
    series["test_3"][AT:] -= 0.03
    assert [(one.test, one.session) for one in changes_of(past_results(series))] == [("test_3", f"s{AT}")]


def test_few_tests_are_judged_by_themselves() -> None:
    series = {test: rates - 0.04 * (np.arange(SESSIONS) >= AT) for test, rates in quiet_tests(3, SESSIONS).items()}
    assert {one.test for one in changes_of(past_results(series))} == set(series)


def test_sessions_of_few_tests_are_left_out_where_most_have_many() -> None:
    results = past_results(quiet_tests(10, SESSIONS))
    by_hand = [past_result(SESSIONS + number, "test_1", -0.3) for number in range(20)]
    assert changes_of(results + by_hand) == []


def test_machines_are_apart() -> None:
    here, there = quiet_tests(1, SESSIONS), quiet_tests(1, SESSIONS)
    there["test_0"] -= 0.5
    assert changes_of(past_results(here) + past_results(there, machine="other")) == []


@pytest.mark.parametrize(
    "more",
    [{"outcome": Outcome.INVALID}, {"is_slowed_on_purpose": True}, {"value": 0.0}],
    ids=["invalid", "slowed on purpose", "no rate"],
)
def test_what_says_nothing_of_the_throughput_is_left_out(more: dict[str, object]) -> None:
    results = past_results(quiet_tests(1, SESSIONS))
    assert changes_of([*results, *(past_result(SESSIONS + n, "test_0", -0.5, **more) for n in range(20))]) == []


def test_results_in_an_earlier_unit_are_left_out() -> None:
    images = past_results({"test_0": np.full(40, 2.0)})
    tokens = [past_result(40 + n, "test_0", 7.0, unit="tokens") for n in range(40)]
    assert changes_of(images + tokens) == []


def test_the_last_decided_measurement_of_a_session_counts() -> None:
    rates = quiet_tests(1, SESSIONS)["test_0"]
    results = past_results({"test_0": rates})
    undecided = [past_result(session, "test_0", -0.5, outcome="") for session in range(AT, SESSIONS)]
    assert changes_of(results + undecided) == changes_of(undecided + results) == []


def test_measurements_without_a_verdict_count() -> None:
    rates = quiet_tests(1, SESSIONS)["test_0"]
    rates[AT:] -= 0.05
    assert len(changes_of(past_results({"test_0": rates}, outcome=""))) == 1


def test_a_test_that_comes_later_does_not_move_the_machine() -> None:
    series = quiet_tests(10, SESSIONS)
    series["late"] = np.concatenate((np.full(AT, np.nan), np.full(SESSIONS - AT, -3.0)))
    assert changes_of(past_results(series)) == []


def test_skewed_noise_does_not_move_the_machine_s_course() -> None:
    """A mean for a test's level, beside the median over tests, made it drift by 0.2 % in each session."""
    slow = -np.random.default_rng(1).exponential(0.01, (365, 20))
    assert abs(np.median(common_drifts(slow)[-30:])) < 0.006


def at_hours(values: list[float], hours: list[float]) -> list[Value]:
    """Sessions of one test at these hours, with these log rates."""
    times = [(START + timedelta(hours=hour)).isoformat() for hour in hours]
    return [past_result(number, "test_0", values[number], time=time) for number, time in enumerate(times)]


NIGHTS = [24.0 * night for night in range(30)]


@pytest.mark.parametrize("minutes", [10, 60])
def test_sessions_within_hours_are_one_moment(minutes: int) -> None:
    values = list(quiet_tests(1, 30, cv=0.002)["test_0"])
    hours = [NIGHTS[-1] + 1 + number * minutes / 60 for number in range(12)]
    assert changes_of(at_hours([*values, *[-0.05] * 12], NIGHTS + hours)) == []


def test_a_decline_within_hours_is_none() -> None:
    values = [*quiet_tests(1, 30, cv=0.002)["test_0"], *np.linspace(-0.01, -0.1, 12)]
    assert changes_of(at_hours(values, NIGHTS + [NIGHTS[-1] + 1 + number for number in range(12)])) == []


@pytest.mark.parametrize("at", range(90, 98))
def test_a_step_between_two_sessions_of_a_day_has_their_commits(at: int) -> None:
    hours = [24.0 * (number // 4) + 2 * (number % 4) for number in range(160)]
    values = quiet_tests(1, 160)["test_0"] - 0.05 * (np.arange(160) >= at)
    change = only(changes_of(at_hours(list(values), hours)))
    assert (change.commit_before, change.commit_after, change.session) == (f"c{at - 1}", f"c{at}", f"s{at}")


def test_a_session_whose_throughput_does_not_count_keeps_its_place_for_its_figures() -> None:
    rates = past_results(quiet_tests(1, 40))
    rates[25:30] = [rate._replace(outcome=Outcome.INVALID) for rate in rates[25:30]]
    change = only(changes_of([*rates, *memory(8000.0, 8800.0)]))
    assert (change.session, change.sessions_since) == ("s20", 20)


def test_a_change_has_the_levels_before_it_and_now() -> None:
    series = quiet_tests(1, SESSIONS, cv=0.001)
    series["test_0"][AT:] -= 0.05
    there, back = only(changes_of(past_results(series))), series["test_0"].copy()
    back[-5:] += 0.05
    assert (there.before, there.now) == (pytest.approx(1000, rel=0.002), pytest.approx(951, rel=0.002))
    assert changes_of(past_results({"test_0": back}))[0].now == pytest.approx(1000, rel=0.002)


def test_changes_are_in_the_order_of_their_dates() -> None:
    series = quiet_tests(3, SESSIONS)
    series["test_0"][60:] -= 0.05
    series["test_2"][30:] -= 0.05
    assert [one.test for one in changes_of(past_results(series))] == ["test_2", "test_0"]


def test_a_year_on_a_restless_machine_has_few_false_alarms() -> None:
    restless = np.random.default_rng(2).normal(0, 0.01, 365)
    series = {test: rates + restless for test, rates in quiet_tests(50, 365, cv=0.01).items()}
    assert len(changes_of(past_results(series))) <= 3


def test_a_time_that_can_not_be_read_is_before_all_others() -> None:
    series = quiet_tests(2, SESSIONS)
    series["test_0"][30:] -= 0.05
    series["test_1"][60:] -= 0.05
    results = past_results(series)
    damaged = [changed(one, time="yesterday") if one.test == "test_1" else one for one in results]
    assert [one.test for one in changes_of(damaged)] == ["test_1", "test_0"]


def memory(*mebibytes: float) -> list[Value]:
    """20 sessions of each peak memory."""
    return past_figure(Figure("peak_memory"), [size * 2**20 for size in mebibytes for _ in range(20)])


def test_a_figure_that_grows_is_a_change_for_the_worse() -> None:
    change = only(changes_of(memory(8000.0, 8800.0)))
    assert (change.key.figure if change.key else "", change.session, change.is_worse) == ("peak_memory", "s20", True)
    assert change.size == pytest.approx(0.1, abs=0.005)


def test_a_figure_that_shrinks_is_a_change_for_the_better() -> None:
    assert not only(changes_of(memory(8800.0, 8000.0))).is_worse


def test_a_change_of_a_figure_within_its_absolute_tolerance_is_none() -> None:
    assert changes_of(memory(500.0, 550.0)) == []


def test_a_figure_that_may_be_negative_changes_by_a_fraction_of_its_level_before() -> None:
    score = Figure("score", field="score", better="higher", absolute=0.1)
    change = only(changes_of(past_figure(score, [-1.0] * 20 + [-1.5] * 20)))
    assert (change.is_worse, change.size) == (True, pytest.approx(-0.5, abs=0.01))


def test_the_interval_of_a_figure_that_may_be_negative_is_in_the_same_unit_as_its_change() -> None:
    noise = np.random.default_rng(3).normal(0, 0.02, 40)
    values = list(np.array([-2.0] * 20 + [-3.0] * 20) + noise)
    change = only(changes_of(past_figure(Figure("score", field="score", better="higher", absolute=0.1), values)))
    assert change.low < change.size < change.high
    assert (change.low, change.high) == (pytest.approx(-0.5, abs=0.03), pytest.approx(-0.5, abs=0.03))


def test_a_figure_within_its_tolerance_does_not_hide_the_test_after_it() -> None:
    slower = quiet_tests(1, 40)
    slower["test_0"][20:] -= 0.05
    assert only(changes_of([*memory(500.0, 550.0), *past_results(slower)])).test == "test_0"


@pytest.mark.parametrize(("course", "kind"), [(-0.08, ChangeKind.DECLINE), (0.08, ChangeKind.RISE)])
def test_a_slow_change_has_its_direction(course: float, kind: ChangeKind) -> None:
    series = quiet_tests(1, SESSIONS)
    series["test_0"] += course * np.clip((np.arange(SESSIONS) - 20) / 40, 0, 1)
    assert only(changes_of(past_results(series))).kind is kind


def test_a_session_of_few_tests_does_not_end_the_machines_course() -> None:
    series = quiet_tests(10, SESSIONS)
    rates = np.column_stack(list(series.values())) - 0.05 * (np.arange(SESSIONS) >= AT)[:, None]
    rates[5, 3:] = np.nan
    drifts = common_drifts(rates)
    assert np.isnan(drifts[5])
    assert drifts[-1] == pytest.approx(-0.05, abs=0.01)


def test_figures_take_no_part_in_the_drift_of_a_machine() -> None:
    rates = past_results(quiet_tests(10, 40))
    assert changes_of([*rates, *memory(8000.0, 8800.0)])[0].test == "test_0"


@pytest.mark.parametrize("other", [{"place": "at step 500"}, {"unit": "min"}], ids=["step", "unit"])
def test_a_figure_that_is_read_at_another_place_or_in_another_unit_did_not_change(other: dict[str, str]) -> None:
    before, after = memory(8000.0), memory(8000.0, 8800.0)[20:]
    assert changes_of([*before, *(changed(one, **other) for one in after)]) == []


def test_results_are_read_once_and_not_kept() -> None:
    series = quiet_tests(10, SESSIONS)
    series["test_0"] -= 0.05 * (np.arange(SESSIONS) >= AT)
    results = past_results(series)
    alive = []

    def each() -> Iterator[Value]:
        for result in results:
            yield result._replace(number=-1)  # read once
        # `isinstance` would ask objects of other libraries for their class, and some warn that they are deprecated.
        alive.extend(one for one in gc.get_objects() if type(one) is Value and one.number == -1)

    assert changes_of(each()) == changes_of(results)
    assert len(alive) <= len(series) + 1  # the latest of each, and the last one


def test_the_changes_of_one_test_are_those_among_all() -> None:
    series = {name: rates - 0.05 * (np.arange(SESSIONS) >= AT) for name, rates in quiet_tests(10, SESSIONS).items()}
    series["test_3"] += 0.1 * (np.arange(SESSIONS) >= 20)
    results = past_results(series)
    every = changes_of(results)
    assert changes_of(results, test="test_3") == [change for change in every if change.test == "test_3"] != every


def test_a_moment_of_several_sessions_has_their_median() -> None:
    lengths = [1, 2, 5, 6, 7]
    values = np.random.default_rng(1).normal(size=sum(lengths))
    starts = np.cumsum([0, *lengths[:-1]])
    assert _medians_of(values, starts) == pytest.approx([np.median(part) for part in np.split(values, starts[1:])])
