"""The judgement of figures beside the throughput."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.verdict import NOTHING, Noise, Outcome, Reason, Verdict, Want, Wants, combined
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.session_effects import CommonDrift
from tests.helpers.measurements import KEY, baseline, figure_evidence

GIB = float(2**30)
MEMORY = Figure("peak_memory")


def judged(figure: Figure, *values: float | None, value: float | None = None, **more: Any) -> Verdict:
    """With a row of five runs that differ by 0.1 %; None for no row."""
    row = None
    if value is not None:
        row = baseline(value, key=KEY._replace(figure=figure.name), unit=figure.unit, between_runs=0.001)
    noise = None if row is None else Noise(between_runs=0.001, degrees_of_freedom=40)
    return judge(figure_evidence(figure, values, row, noise, **more))


def of_pairs(figure: Figure, a: float, b: float, count: int, **more: Any) -> Verdict:
    pairs: Sequence[tuple[float, float]] = [(a, b)] * count
    return judged(figure, b, value=a, pairs=pairs, has_reference_environment=True, **more)


def test_a_figure_within_its_tolerance_passes_at_the_first_run() -> None:
    assert judged(MEMORY, 16.2 * GIB, value=16 * GIB).outcome is Outcome.PASS


@pytest.mark.parametrize(("value", "reason"), [(16.2, Reason.WITHIN_TOLERANCE), (17.5, Reason.WITHIN_NOISE)])
def test_a_figure_beyond_its_tolerance_that_noise_explains_is_called_within_noise(value: float, reason: Reason) -> None:
    row = baseline(16 * GIB, key=KEY._replace(figure="peak_memory"), unit="bytes")
    noisy = Noise(between_runs=0.1, degrees_of_freedom=40)
    found = judge(figure_evidence(MEMORY, [value * GIB], row, noisy))
    assert (found.outcome, found.reason) == (Outcome.PASS, reason)


def test_a_suspected_figure_wants_fresh_runs() -> None:
    assert judged(MEMORY, 17.5 * GIB, value=16 * GIB).wants == Wants(Want.RUNS, 3)


def test_a_suspected_figure_wants_pairs_where_there_is_a_reference_environment() -> None:
    verdict = of_pairs(MEMORY, 16 * GIB, 17.5 * GIB, 0)
    assert verdict.wants == Wants(Want.PAIRS, 1)


def test_a_change_that_all_runs_show_regresses() -> None:
    verdict = judged(MEMORY, *[17.5 * GIB] * 8, value=16 * GIB)
    assert (verdict.outcome, verdict.reason) == (Outcome.REGRESSED, Reason.CONFIRMED)


def test_a_change_that_all_pairs_show_regresses_by_what_the_pairs_say() -> None:
    verdict = of_pairs(MEMORY, 16 * GIB, 17.5 * GIB, 12)
    assert (verdict.outcome, verdict.confirmed_change) == (Outcome.REGRESSED, 1.5 * GIB)


def test_runs_whose_throughput_differs_more_say_nothing_of_another_figure() -> None:
    given = {"pairs": [(10.0, 10.0)] * 2, "has_reference_environment": True}
    found = judged(Figure("first_step"), 20.0, value=10.0, drift=CommonDrift(tests=20, growth=500), **given)
    assert (found.outcome, found.wants) == (Outcome.PASS, NOTHING)


def test_a_change_is_one_from_what_the_reference_environment_gives_today() -> None:
    pairs = [(20.0, 40.0)] * 12
    verdict = judged(Figure("first_step"), 40.0, value=10.0, pairs=pairs, has_reference_environment=True)
    assert (verdict.confirmed_change, verdict.confirmed_from) == (20.0, 20.0)


@pytest.mark.parametrize(("now", "outcome"), [(208.0, Outcome.PASS), (220.0, Outcome.REGRESSED)])
def test_the_tolerance_of_pairs_is_that_of_what_the_reference_environment_gives_today(
    now: float, outcome: Outcome
) -> None:
    """5 % of its 200 are 10; of the row's 100 they would be 5."""
    evidence = {"pairs": [(200.0, now)] * 12, "has_reference_environment": True}
    assert judged(Figure("size", field="size"), now, value=100.0, **evidence).outcome is outcome


def test_pairs_clear_what_their_own_noise_explains() -> None:
    evidence = {"pairs": [(100.0, 100.1), (100.1, 100.0)] * 10, "has_reference_environment": True}
    strict = Figure("size", field="size", tolerance=0.0, absolute=1e-9)
    assert judged(strict, 150.0, value=100.0, **evidence).outcome is Outcome.PASS


def test_pairs_that_do_not_show_the_change_clear_it() -> None:
    evidence = {"pairs": [(17.5 * GIB, 17.5 * GIB)] * 2, "has_reference_environment": True}
    assert judged(MEMORY, 17.5 * GIB, value=16 * GIB, **evidence).outcome is Outcome.PASS


@pytest.mark.parametrize(("factor", "outcome"), [(1.0, Outcome.REGRESSED), (1.035, Outcome.PASS)])
def test_what_all_tests_have_in_common_is_no_change_of_a_time(factor: float, outcome: Outcome) -> None:
    latency = Figure("p50", unit="ms", field="p50", tolerance=0.02)
    assert judged(latency, *[103.5] * 8, value=100.0, drift=CommonDrift(-math.log(factor))).outcome is outcome


@pytest.mark.parametrize(("value", "outcome"), [(80.0, Outcome.PASS), (60.0, Outcome.IMPROVED)])
def test_a_gain_within_its_own_tolerance_is_no_improvement(value: float, outcome: Outcome) -> None:
    assert judged(Figure("p50", field="p50", tolerance=0.3), value, value=100.0).outcome is outcome


def with_spread(figure: Figure, value: float, spread: float, *values: float) -> Verdict:
    """Of a row whose runs differ by this fraction of its value."""
    row = baseline(value, key=KEY._replace(figure=figure.name), unit=figure.unit, between_runs=spread)
    return judge(figure_evidence(figure, values, row, Noise(between_runs=spread, degrees_of_freedom=40)))


@pytest.mark.parametrize("unit", ["MB", "points"])
@pytest.mark.parametrize("runs", [1, 8])
def test_a_spread_that_hides_twice_the_value_is_too_noisy(unit: str, runs: int) -> None:
    """2 was written for 2 %, so that 80 % more passed."""
    size = Figure("size", field="size", unit=unit)
    found = with_spread(size, 100.0, 2.0, *[180.0] * runs)
    assert (found.outcome, found.why) == (
        Outcome.TOO_NOISY,
        "too noisy to judge: noise widens the threshold so far that a change by its whole value would pass",
    )
    assert with_spread(size, 100.0, 0.02, *[180.0] * 8).outcome is Outcome.REGRESSED


def test_the_spread_of_a_figure_near_zero_is_held_against_its_tolerance() -> None:
    bias = Figure("bias", field="bias", absolute=0.5)
    assert with_spread(bias, 0.001, 100.0, 0.2).outcome is Outcome.PASS
    assert with_spread(bias, 0.001, 1000.0, 0.2).outcome is Outcome.TOO_NOISY


@given(
    value=st.floats(-1e6, 1e6).filter(lambda value: abs(value) > 1e-6),
    spread=st.floats(0.0, 10.0),
    absolute=st.floats(0.0, 1e6),
    better=st.sampled_from(["lower", "higher", "same"]),
)
def test_a_figure_that_passes_at_its_baseline_can_fail(
    value: float, spread: float, absolute: float, better: str
) -> None:
    figure = Figure("size", field="size", absolute=absolute, better=better)
    if with_spread(figure, value, spread, value).outcome is not Outcome.PASS:
        return
    too_much = 1.01 * max(abs(value), 2 * figure.accepted(value))
    worse = value - too_much if better == "higher" else value + too_much
    assert with_spread(figure, value, spread, *[worse] * 8).outcome is Outcome.REGRESSED


def test_one_page_more_of_little_memory_is_no_change() -> None:
    assert judged(MEMORY, 90 * 2.0**20, value=60 * 2.0**20).outcome is Outcome.PASS


def test_both_tolerances_must_be_exceeded() -> None:
    # 2 % of 16 GiB are more than 64 MiB.
    assert judged(MEMORY, 16.2 * GIB, value=16 * GIB).outcome is Outcome.PASS
    assert judged(MEMORY, 1.2 * GIB, value=1.0 * GIB).outcome is Outcome.INCONCLUSIVE


def test_less_memory_is_an_improvement() -> None:
    assert judged(MEMORY, 12 * GIB, value=16 * GIB).outcome is Outcome.IMPROVED


def test_a_gain_that_noise_explains_among_many_tests_is_no_improvement() -> None:
    figure = Figure("size", field="size", tolerance=0.0, absolute=1e-9)
    assert judged(figure, 99.7, value=100.0).outcome is Outcome.IMPROVED
    assert judged(figure, 99.7, value=100.0, tests=1000).outcome is Outcome.PASS


@pytest.mark.parametrize("value", [1.8, 2.2])
def test_a_loss_is_suspected_in_either_direction(value: float) -> None:
    assert judged(Figure("loss"), value, value=2.0).outcome is Outcome.INCONCLUSIVE


def test_a_loss_that_fell_by_more_than_its_tolerance_regresses() -> None:
    assert judged(Figure("loss"), *[1.8] * 8, value=2.0).outcome is Outcome.REGRESSED


def test_where_higher_is_better_a_lower_value_is_suspected() -> None:
    accuracy = Figure("accuracy", better="higher", field="accuracy")
    found = [judged(accuracy, value, value=0.9).outcome for value in (0.8, 0.97)]
    assert found == [Outcome.INCONCLUSIVE, Outcome.IMPROVED]


def test_a_negative_reference_is_judged_by_its_distance() -> None:
    elbo = Figure("elbo", better="higher", field="elbo")
    assert judged(elbo, *[-120.0] * 8, value=-100.0).outcome is Outcome.REGRESSED


def test_a_reference_of_zero_has_its_absolute_tolerance() -> None:
    lost = Figure("lost", field="lost", tolerance=0.0, absolute=3.0)
    assert judged(lost, *[2.0] * 8, value=0.0).outcome is Outcome.PASS
    assert judged(lost, *[9.0] * 8, value=0.0).outcome is Outcome.REGRESSED


def test_a_limit_needs_no_baseline() -> None:
    figure = Figure("loss", limit=3.0)
    assert judged(figure, 2.0).outcome is Outcome.PASS
    assert (judged(figure, 4.0).outcome, judged(figure, 4.0).wants) == (Outcome.INCONCLUSIVE, Wants(Want.RUNS, 3))
    assert judged(figure, 4.0, 4.0, 4.0).reason is Reason.BEYOND_LIMIT


def test_one_value_beyond_the_limit_of_three_fails_nothing() -> None:
    assert judged(Figure("loss", limit=3.0), 4.0, 2.0, 2.0).outcome is Outcome.PASS


def test_the_current_side_of_pairs_counts_towards_the_limit() -> None:
    evidence = {"pairs": [(2.0, 4.0)] * 2, "has_reference_environment": True}
    assert judged(Figure("loss", limit=3.0), 4.0, value=2.0, **evidence).reason is Reason.BEYOND_LIMIT


def test_a_limit_fails_although_the_baseline_is_as_high() -> None:
    verdict = judged(Figure("loss", limit=3.0), 4.0, 4.0, 4.0, value=4.0)
    assert verdict.outcome is Outcome.REGRESSED


def test_a_figure_without_row_and_limit_has_no_baseline() -> None:
    assert judged(MEMORY, GIB).outcome is Outcome.NO_BASELINE


def test_a_figure_that_a_run_could_not_tell_is_invalid_and_never_passes() -> None:
    verdict = judged(MEMORY, None, value=GIB)
    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, Reason.NOT_MEASURED)


def test_a_figure_that_is_no_number_is_invalid() -> None:
    assert judged(Figure("loss"), float("nan"), value=2.0).reason is Reason.NOT_FINITE


def test_a_suspect_stays_one_between_two_stages() -> None:
    assert judged(MEMORY, 17.5 * GIB, 16 * GIB, value=16 * GIB).wants == Wants(Want.RUNS, 3)


def test_one_slow_first_step_fails_nothing() -> None:
    verdict = judged(Figure("first_step"), 40.0, *[10.0] * 7, value=10.0)
    assert verdict.outcome is Outcome.PASS


def test_pairs_are_wanted_before_runs_and_the_most_of_them() -> None:
    wants = [Wants(Want.RUNS, 8), Wants(Want.PAIRS, 1), Wants(Want.PAIRS, 4), Wants(Want.COMMON_DRIFT)]
    assert combined(wants) == Wants(Want.PAIRS, 4)
    assert combined([NOTHING]) == NOTHING


TIME = Figure("eval_time", field="eval.time", unit="min")


def of_row(figure: Figure, value: float, *places: str, **row: Any) -> Verdict:
    kept = baseline(2.0, key=KEY._replace(figure=figure.name), **{"unit": figure.unit or "", **row})
    noise = Noise(between_runs=0.001, degrees_of_freedom=40)
    return judge(figure_evidence(figure, [value], kept, noise, places=places))


def test_a_row_in_another_unit_is_not_compared() -> None:
    found = of_row(TIME, 2.0, unit="s")
    assert (found.outcome, found.reason, found.change) == (Outcome.INVALID, Reason.OTHER_UNIT, None)


@pytest.mark.parametrize(
    ("note", "places"),
    [
        ("read at step 400", ["at step 460"]),
        ("read at step 400", ["at the end"]),
        ("read at step 400", ["at step 400", "at step 401"]),
        ("", ["at step 400"]),
    ],
    ids=["step", "end", "two", "unknown"],
)
def test_values_of_another_place_than_the_rows_are_not_compared(note: str, places: list[str]) -> None:
    found = of_row(Figure("loss"), 2.0, *places, note=note)
    assert (found.outcome, found.reason) == (Outcome.INVALID, Reason.OTHER_PLACE)


def test_values_of_the_place_that_the_row_names_are_compared() -> None:
    note = "recorded under load: 40 %; read at step 400"
    assert of_row(Figure("loss"), 2.0, "at step 400", note=note).outcome is Outcome.PASS


def test_a_limit_holds_at_whatever_place_a_value_was_printed() -> None:
    found = judged(Figure("loss", limit=3.0), *[4.0] * 3, places=("at step 8", "at step 9"))
    assert (found.outcome, found.reason) == (Outcome.REGRESSED, Reason.BEYOND_LIMIT)


def test_values_of_different_places_without_a_row_are_only_measured() -> None:
    assert judged(Figure("loss"), 2.0, 2.1, places=("at step 8", "at step 9")).outcome is Outcome.NO_BASELINE


@pytest.mark.parametrize(("value", "worse"), [(0.0, 1.0), (-2.0, -1.0)])
def test_a_figure_of_0_or_below_is_judged(value: float, worse: float) -> None:
    figure = Figure("x", field="x")
    assert judged(figure, value, value=value).outcome is Outcome.PASS
    assert judged(figure, *[worse] * 8, value=value).outcome is Outcome.REGRESSED


COMPILATIONS, WAIT = Figure("compilations"), Figure("input_wait")


@pytest.mark.parametrize(("recorded", "now"), [(0.0, 1.0), (2.0, 3.0), (4000.0, 4001.0)])
def test_one_more_of_a_count_regresses_however_large_it_is(recorded: float, now: float) -> None:
    assert judged(COMPILATIONS, recorded, value=recorded).outcome is Outcome.PASS
    assert judged(COMPILATIONS, *[now] * 8, value=recorded).outcome is Outcome.REGRESSED
    assert of_pairs(COMPILATIONS, recorded, now, 12).outcome is Outcome.REGRESSED


def test_one_less_of_a_count_is_an_improvement() -> None:
    assert judged(COMPILATIONS, 1.0, value=2.0).outcome is Outcome.IMPROVED


def test_a_count_that_one_run_of_eight_has_higher_passes() -> None:
    assert judged(COMPILATIONS, 1.0, *[0.0] * 7, value=0.0).outcome is Outcome.PASS


@pytest.mark.parametrize(("recorded", "now"), [(0.0, 0.04), (0.5, 0.54)])
def test_four_points_more_of_a_share_are_accepted(recorded: float, now: float) -> None:
    assert judged(WAIT, *[now] * 8, value=recorded).outcome is Outcome.PASS


@pytest.mark.parametrize(("recorded", "now"), [(0.0, 0.06), (0.5, 0.56)])
def test_six_points_more_of_a_share_regress(recorded: float, now: float) -> None:
    assert judged(WAIT, *[now] * 8, value=recorded).outcome is Outcome.REGRESSED
    assert of_pairs(WAIT, recorded, now, 12).outcome is Outcome.REGRESSED


def test_a_mean_over_other_steps_than_the_rows_is_not_compared() -> None:
    figure = Figure("loss", steps=(50, 100))
    assert of_row(figure, 2.0, "over steps 50 to 100", note="read over steps 50 to 100").outcome is Outcome.PASS
    assert of_row(figure, 2.0, "over steps 50 to 100", note="read over steps 40 to 90").reason is Reason.OTHER_PLACE
