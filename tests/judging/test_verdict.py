"""The judgement of one test: its laws, its reasons, and the pitfalls of gating on noisy figures."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.past import SessionChanges
from pytest_tfperf.core.run import Pair
from pytest_tfperf.core.throughput import RunValue
from pytest_tfperf.core.verdict import NOTHING, Noise, Outcome, Reason, Rule, Tolerance, Verdict, Want, Wants
from pytest_tfperf.judging.confirmation import RUN_STAGES
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge, may_stop_early
from pytest_tfperf.judging.pairs import MOST_PAIRS, PAIRS_THAT_TELL
from pytest_tfperf.judging.session_effects import GRID, CommonDrift, SessionVariance, common_drift, session_variance
from pytest_tfperf.judging.target import Target
from tests.helpers.measurements import baseline, run_at, throughput

ROW = baseline(1000.0)
ONE_PER_CENT = Noise(between_runs=0.01, degrees_of_freedom=200, rows=50)
QUIET = Noise(between_runs=0.001, degrees_of_freedom=200, rows=50)
NOISY = Noise(between_runs=0.05, degrees_of_freedom=200, rows=50)
SAME_EVERY_SESSION = SessionVariance((1.0, *[0.0] * (len(GRID) - 1)))
BLIND = Noise(between_runs=0.3, degrees_of_freedom=200, rows=50)
WORST_FIRST = (Outcome.REGRESSED, Outcome.INCONCLUSIVE, Outcome.TOO_NOISY, Outcome.PASS, Outcome.IMPROVED)
LAST_RUN = RUN_STAGES[-1]


def pairs(changes: Sequence[float]) -> tuple[Pair, ...]:
    return tuple(Pair(run_at(1000.0), run_at(1000.0), math.log1p(change), 0.001) for change in changes)


def evidence(
    *runs: float,
    confirmed: Sequence[float] | None = None,
    tolerance: float | tuple[float | None, float | None] = 0.02,
    noise: Noise = ONE_PER_CENT,
    row: Baseline | None = ROW,
    is_floor: bool = False,
    error: float = 0.0005,
    loss: float | None = None,
    **more: Any,
) -> Evidence:
    """Runs that differ from the reference by these fractions; with `confirmed`, pairs with a reference environment."""
    given: dict[str, Any] = {
        "throughput": throughput(*(1000.0 * (1 + change) for change in runs), error=error, loss=loss),
        "target": Target(row, is_floor, noise if row else None),
        "tolerance": Tolerance.of(tolerance),
        "variance": SAME_EVERY_SESSION,
    }
    if confirmed is not None:
        given |= {"pairs": pairs(confirmed), "has_reference_environment": True}
    return Evidence(**given | more)


def verdict(*runs: float, **given: Any) -> Verdict:
    return judge(evidence(*runs, **given))


def by_pairs(change: float, count: int = 12, **given: Any) -> Verdict:
    """A first run that is far too slow, and as many pairs with this change."""
    return verdict(-0.3, confirmed=[change] * count, **given)


def by_runs(change: float, count: int = LAST_RUN, **given: Any) -> Verdict:
    return verdict(*[change] * count, **given)


def rank(found: Verdict) -> int:
    return WORST_FIRST.index(found.outcome)


def reasons(found: Verdict) -> tuple[Outcome, Reason]:
    return found.outcome, found.reason


# Few tests, whose common drift can't be taken out

FEW = {"tests": 5, "variance": session_variance(tests=5)}


@pytest.mark.parametrize(
    ("change", "others", "expected"),
    [
        (-0.07, 0.0, (Outcome.REGRESSED, Reason.CONFIRMED)),
        (-0.07, 0.1, (Outcome.REGRESSED, Reason.CONFIRMED)),
        (-0.07, -0.07, (Outcome.INCONCLUSIVE, Reason.OTHERS_TOO)),
        (-0.05, -0.05, (Outcome.PASS, Reason.OTHERS_TOO)),
        (-0.2, -0.2, (Outcome.REGRESSED, Reason.CONFIRMED)),
        (-0.01, -0.01, (Outcome.PASS, Reason.WITHIN_TOLERANCE)),
    ],
)
def test_what_the_other_tests_lost_too_fails_no_test_unless_no_session_explains_it(
    change: float, others: float, expected: tuple[Outcome, Reason]
) -> None:
    assert reasons(by_runs(change, others=others, **FEW)) == expected


def test_with_a_reference_environment_the_other_tests_do_not_count() -> None:
    assert by_pairs(-0.07, others=-0.07, **FEW).outcome is Outcome.REGRESSED


@pytest.mark.parametrize(
    ("change", "others", "suspected"), [(-0.015, 0.02, True), (-0.015, -0.02, False), (0.0, 0.015, False)]
)
def test_a_loss_that_a_faster_machine_hides_is_suspected_where_pairs_can_tell(
    change: float, others: float, suspected: bool
) -> None:
    found = verdict(change, confirmed=[], others=others, **FEW)
    assert found.wants == (Wants(Want.PAIRS, 1) if suspected else NOTHING)
    assert verdict(change, others=others, **FEW).wants == NOTHING


def test_pairs_decide_whatever_the_other_tests_gained() -> None:
    found = [verdict(-0.015, confirmed=[change] * PAIRS_THAT_TELL, others=0.02, **FEW) for change in (-0.05, 0.0)]
    assert [one.outcome for one in found] == [Outcome.REGRESSED, Outcome.PASS]
    assert [one.common_drift for one in found] == [0.0, 0.0]


# Tests whose drift is still to come


@pytest.mark.parametrize("confirmed", [None, []])
@pytest.mark.parametrize(
    ("change", "drift", "waits"),
    [(-0.05, -0.05, True), (0.0, 0.05, True), (0.0, -0.05, True), (0.0, -0.01, False), (0.05, 0.05, False)],
)
def test_only_what_is_the_same_with_and_without_a_drift_for_the_worse_is_decided_before_all_tests_ran(
    change: float, drift: float, waits: bool, confirmed: list[float] | None
) -> None:
    known = CommonDrift(math.log1p(drift), 8)
    found = verdict(change, confirmed=confirmed, drift=known, is_drift_to_come=True)
    assert found.wants == (Wants(Want.COMMON_DRIFT) if waits else NOTHING)
    assert (found.reason is Reason.DRIFT_UNKNOWN) is waits


def test_a_test_waits_although_it_looks_good_where_no_drift_is_known_yet() -> None:
    assert verdict(0.0, is_drift_to_come=True).wants == Wants(Want.COMMON_DRIFT)


# The laws

changes = st.floats(-0.4, 0.4)
alike = st.tuples(changes, st.lists(st.floats(-0.02, 0.02), min_size=1, max_size=14)).map(
    lambda drawn: [drawn[0] + other for other in drawn[1]]
)
situations = st.fixed_dictionaries(
    {
        "tolerance": st.tuples(st.none() | st.floats(-0.3, -0.005), st.none() | st.floats(0.005, 0.3)),
        "noise": st.builds(
            lambda sd, df: Noise(between_runs=sd, degrees_of_freedom=df), st.floats(0.001, 0.05), st.floats(2, 300)
        ),
        "tests": st.integers(1, 60),
        "suspects": st.integers(1, 10),
        "max_runs": st.none() | st.integers(1, 14),
        "is_floor": st.booleans(),
        "drift": st.builds(CommonDrift, st.floats(-0.1, 0.1), st.integers(0, 60)),
        "others": st.none() | st.floats(-0.1, 0.1),
        "variance": st.sampled_from([SAME_EVERY_SESSION, session_variance(tests=50), session_variance(tests=3)]),
    }
)


def slower(values: Sequence[float], by: Sequence[float]) -> list[float]:
    return [(1 + value) * (1 - less) - 1 for value, less in zip(values, by, strict=False)]


@given(situations, alike, st.none() | alike, st.lists(st.floats(0, 0.3), min_size=14, max_size=14), st.floats(0, 0.3))
def test_slower_runs_and_pairs_never_make_a_better_verdict(
    situation: dict[str, Any], runs: list[float], confirmed: list[float] | None, by: list[float], all_by: float
) -> None:
    more_confirmed = None if confirmed is None else slower(confirmed, [all_by] * len(confirmed))
    now = verdict(*runs, confirmed=confirmed, **situation)
    worse = verdict(*slower(runs, by), confirmed=more_confirmed, **situation)
    assert rank(worse) <= rank(now)


@given(situations, alike, st.none() | alike)
def test_the_change_that_decides_lies_in_its_interval(
    situation: dict[str, Any], runs: list[float], confirmed: list[float] | None
) -> None:
    found = verdict(*runs, confirmed=confirmed, **situation)
    assert found.deciding_change is not None
    assert found.interval is not None
    low, high = found.interval
    assert low - 1e-9 <= found.deciding_change <= high + 1e-9


@pytest.mark.parametrize("wild", [-0.6, 0.3])
def test_one_wild_pair_does_not_hide_what_the_others_show(wild: float) -> None:
    others = [-0.045, -0.05, -0.055, -0.05, -0.048, -0.052, -0.05, -0.049, -0.051, -0.05, -0.05]
    assert verdict(-0.3, confirmed=[*others, wild]).outcome is Outcome.REGRESSED


@given(situations, alike, st.floats(0.001, 0.3), st.floats(0, 0.2))
def test_a_wider_tolerance_never_fails_runs_that_a_narrower_one_does_not(
    situation: dict[str, Any], runs: list[float], narrow: float, more: float
) -> None:
    narrower, wider = (verdict(*runs, **situation | {"tolerance": (-drop, None)}) for drop in (narrow, narrow + more))
    assert wider.outcome is not Outcome.REGRESSED or narrower.outcome is Outcome.REGRESSED


@given(situations, alike, st.none() | alike)
def test_the_order_of_runs_and_pairs_does_not_matter(
    situation: dict[str, Any], runs: list[float], confirmed: list[float] | None
) -> None:
    ordered = None if confirmed is None else sorted(confirmed)
    there, back = (
        verdict(*runs, confirmed=confirmed, **situation),
        verdict(*sorted(runs), confirmed=ordered, **situation),
    )
    assert (there.outcome, there.reason, there.wants) == (back.outcome, back.reason, back.wants)


@given(situations, alike, st.none() | alike)
def test_nothing_within_the_tolerance_regresses(
    situation: dict[str, Any], runs: list[float], confirmed: list[float] | None
) -> None:
    found = verdict(*runs, confirmed=confirmed, **situation)
    if found.outcome is Outcome.REGRESSED:
        assert found.confirmed_change is None or found.confirmed_change < -(found.threshold or 0.0)
        assert found.tolerance is not None
        assert found.tolerance.lower is not None
        assert (found.threshold or 0.0) >= -found.tolerance.lower - 1e-12
        assert (found.min_detectable_slowdown or 0.0) >= (found.threshold or 0.0)


@given(situations, changes, st.integers(1, LAST_RUN - 1))
def test_a_suspect_never_fails_before_the_last_stage_of_runs_or_before_six_pairs(
    situation: dict[str, Any], change: float, count: int
) -> None:
    situation |= {"max_runs": None}
    assert by_runs(change, count, **situation).outcome is not Outcome.REGRESSED
    if count < PAIRS_THAT_TELL:
        assert by_pairs(change, count, **situation | {"is_floor": False}).outcome is not Outcome.REGRESSED


@given(situations, alike)
def test_any_drop_passes_where_any_drop_is_accepted(situation: dict[str, Any], runs: list[float]) -> None:
    found = verdict(*runs, **situation | {"tolerance": (None, 0.1)})
    assert found.outcome in (Outcome.PASS, Outcome.IMPROVED)
    assert (found.lower, found.threshold, found.min_detectable_slowdown) == (None, None, None)


accepting = st.floats(-0.5, -0.005).map(lambda lower: (lower, None))
of_any_noise = st.builds(
    lambda sd, df: Noise(between_runs=sd, degrees_of_freedom=df), st.floats(0.001, 0.5), st.floats(1, 300)
)


@given(situations, of_any_noise, accepting, alike, st.none() | alike)
def test_nothing_passes_that_may_have_lost_a_quarter_unless_the_tolerance_accepts_it(
    situation: dict[str, Any],
    noise: Noise,
    tolerance: tuple[float, None],
    runs: list[float],
    confirmed: list[float] | None,
) -> None:
    found = verdict(*runs, confirmed=confirmed, **situation | {"noise": noise, "tolerance": tolerance})
    accepted, fraction = -math.log1p(tolerance[0]), found.threshold or 0.0
    threshold = -math.log1p(-fraction) if fraction < 1 else math.inf
    hidden = threshold - accepted if found.rule is Rule.REFERENCE_ENVIRONMENT else threshold
    is_wide = hidden > max(-math.log(0.75), accepted) + 1e-12
    if found.outcome in (Outcome.PASS, Outcome.TOO_NOISY) and found.reason is not Reason.ABOVE_FLOOR:
        assert (found.outcome is Outcome.TOO_NOISY) is is_wide
    if found.outcome is Outcome.INCONCLUSIVE and found.is_decided:
        assert not is_wide


@given(st.floats(0.02, 0.2), st.floats(-0.2, 0.1), st.integers(1, LAST_RUN), st.none() | st.just(1))
def test_what_lost_more_than_the_tolerance_is_never_called_within_it(
    between_runs: float, change: float, count: int, max_runs: int | None
) -> None:
    assume(abs(change + 0.02) > 1e-9)  # the tolerance itself may round to either side
    noise = Noise(between_runs=between_runs, degrees_of_freedom=200)
    found = by_runs(change, count, noise=noise, max_runs=max_runs)
    if found.outcome is Outcome.PASS:
        assert (found.reason is Reason.WITHIN_TOLERANCE) is (change >= -0.02)


# One example of each reason


@pytest.mark.parametrize(
    ("found", "outcome", "reason"),
    [
        (verdict(-0.01), Outcome.PASS, Reason.WITHIN_TOLERANCE),
        (verdict(0.06), Outcome.IMPROVED, Reason.BETTER),
        (verdict(0.06, is_floor=True), Outcome.PASS, Reason.ABOVE_FLOOR),
        (verdict(0.06, noise=NOISY), Outcome.PASS, Reason.WITHIN_TOLERANCE),
        (verdict(-0.1, row=None), Outcome.NO_BASELINE, Reason.NO_BASELINE),
        (verdict(-0.1, loss=math.nan), Outcome.INVALID, Reason.DIVERGED),
        (verdict(-0.1, is_drift_to_come=True), Outcome.INCONCLUSIVE, Reason.DRIFT_UNKNOWN),
        (verdict(-0.1), Outcome.INCONCLUSIVE, Reason.SUSPECTED),
        (verdict(-0.1, confirmed=[]), Outcome.INCONCLUSIVE, Reason.SUSPECTED),
        (by_runs(-0.05), Outcome.REGRESSED, Reason.CONFIRMED),
        (by_pairs(-0.05), Outcome.REGRESSED, Reason.CONFIRMED),
        (verdict(-0.2, max_runs=1), Outcome.REGRESSED, Reason.SINGLE_RUN),
        (verdict(-0.13, max_runs=1, noise=NOISY, tests=50), Outcome.PASS, Reason.WITHIN_NOISE),
        (by_runs(-0.06, noise=NOISY), Outcome.INCONCLUSIVE, Reason.WITHIN_NOISE),
        (verdict(-0.06, noise=NOISY), Outcome.PASS, Reason.WITHIN_NOISE),
        (by_runs(-0.04, 3, noise=NOISY), Outcome.PASS, Reason.WITHIN_NOISE),
        (verdict(0.0, noise=BLIND), Outcome.TOO_NOISY, Reason.TOO_NOISY),
        (by_runs(-0.15, 3, noise=BLIND), Outcome.TOO_NOISY, Reason.TOO_NOISY),
        (by_runs(-0.4, noise=BLIND, tests=20), Outcome.TOO_NOISY, Reason.TOO_NOISY),
        (verdict(-0.3, max_runs=1, noise=BLIND), Outcome.TOO_NOISY, Reason.TOO_NOISY),
        (verdict(-0.02, is_floor=True, noise=BLIND), Outcome.TOO_NOISY, Reason.TOO_NOISY),
        (verdict(2.0, is_floor=True, noise=BLIND), Outcome.PASS, Reason.ABOVE_FLOOR),
        (verdict(2.0, noise=BLIND), Outcome.IMPROVED, Reason.BETTER),
        (verdict(-0.3, noise=BLIND, tolerance=0.5), Outcome.PASS, Reason.WITHIN_TOLERANCE),
        (verdict(-0.3, confirmed=[-0.03, -0.018] * 10), Outcome.INCONCLUSIVE, Reason.WITHIN_NOISE),
        (verdict(-0.3, confirmed=[-0.06, 0.0] * 6), Outcome.INCONCLUSIVE, Reason.SUSPECTED),
        (verdict(*[-0.37] * 6, 0.0, 0.0), Outcome.INCONCLUSIVE, Reason.RUNS_DISAGREE),
        (verdict(*[-0.37] * 5, 0.0, 0.0, 0.0), Outcome.PASS, Reason.RUNS_DISAGREE),
    ],
)  # fmt: skip
def test_each_reason_has_its_outcome(found: Verdict, outcome: Outcome, reason: Reason) -> None:
    assert reasons(found) == (outcome, reason)


def test_pairs_that_all_show_a_loss_are_not_doubted_for_what_a_neighbour_may_have_taken_from_one_side() -> None:
    """A pair's error holds the most that a disturbance of one side can have been; six pairs show what it was."""
    uneven = [replace(pair, error=0.2) for pair in pairs([-0.3] * PAIRS_THAT_TELL)]
    found = judge(replace(evidence(-0.3, confirmed=[]), pairs=uneven))
    assert (found.outcome, found.reason) == (Outcome.REGRESSED, Reason.CONFIRMED)


def test_a_first_run_that_is_suspected_wants_pairs_or_else_runs() -> None:
    pairs_first, runs_first = verdict(-0.1, confirmed=[]), verdict(-0.1)
    assert (pairs_first.rule, pairs_first.wants) == (Rule.REFERENCE_ENVIRONMENT, Wants(Want.PAIRS, 1))
    assert (runs_first.rule, runs_first.wants) == (Rule.BASELINE, Wants(Want.RUNS, 3))


@pytest.mark.parametrize(("count", "wanted"), [(0, 1), (1, 2), (2, 3), (5, 6), (6, 0), (12, 0)])
def test_a_slowdown_is_confirmed_pair_by_pair_and_in_six_at_least(count: int, wanted: int) -> None:
    assert by_pairs(-0.1, count).wants == (Wants(Want.PAIRS, wanted) if wanted else NOTHING)


@pytest.mark.parametrize(("count", "wanted"), [(1, 3), (2, 3), (3, 8), (5, 8), (8, 0), (9, 0)])
def test_without_a_reference_environment_it_is_confirmed_in_3_and_8_runs(count: int, wanted: int) -> None:
    assert by_runs(-0.1, count).wants == (Wants(Want.RUNS, wanted) if wanted else NOTHING)


@pytest.mark.parametrize("count", [2, 4, MOST_PAIRS])
def test_pairs_that_show_no_slowdown_clear_a_suspect(count: int) -> None:
    found = by_pairs(0.0, count)
    assert (found.outcome, found.is_decided, found.confirmed_change) == (Outcome.PASS, True, 0.0)


def test_three_runs_that_show_no_slowdown_clear_a_suspect() -> None:
    found = verdict(-0.05, 0.0, 0.01)
    assert (found.outcome, found.is_decided) == (Outcome.PASS, True)


def test_a_good_second_run_does_not_call_off_the_third() -> None:
    assert verdict(-0.05, 0.05).wants == Wants(Want.RUNS, 3)


@pytest.mark.parametrize(("growth", "wants"), [(1.0, NOTHING), (5.0, Wants(Want.PAIRS, 3))])
def test_where_runs_differ_more_than_when_the_rows_were_recorded_two_pairs_clear_nobody(
    growth: float, wants: Wants
) -> None:
    assert by_pairs(0.0, count=2, drift=CommonDrift(tests=20, growth=growth)).wants == wants


def test_pairs_count_against_the_reference_environment_whatever_the_baseline_says() -> None:
    assert verdict(*[-0.2] * 12, confirmed=[0.0] * 2).outcome is Outcome.PASS


def test_when_the_reference_environment_is_lost_runs_decide() -> None:
    found = judge(replace(evidence(*[-0.1] * LAST_RUN, confirmed=[-0.1] * 3), has_reference_environment=False))
    assert (found.outcome, found.rule) == (Outcome.REGRESSED, Rule.BASELINE)


def test_where_no_more_can_be_measured_the_pairs_that_there_are_decide() -> None:
    enough, few = by_pairs(-0.1, 6, max_runs=1), by_pairs(-0.1, 5, max_runs=1)
    assert (enough.outcome, enough.rule, enough.is_decided) == (Outcome.REGRESSED, Rule.REFERENCE_ENVIRONMENT, True)
    assert (few.outcome, few.reason, few.is_decided) == (Outcome.INCONCLUSIVE, Reason.WITHIN_NOISE, True)
    assert verdict(-0.1, confirmed=[], max_runs=1).rule is Rule.BASELINE


# Drift, floors and earlier sessions


def test_a_drift_common_to_all_tests_is_taken_out_both_ways() -> None:
    slow, fast = CommonDrift(math.log(0.87), 50), CommonDrift(math.log(1.13), 50)
    assert by_runs(-0.13, drift=slow).outcome is Outcome.PASS
    assert by_runs(0.0, drift=fast).outcome is Outcome.REGRESSED
    assert by_runs(-0.13, drift=slow).change == pytest.approx(-0.13)


def test_a_documents_floor_knows_neither_drift_nor_pairs() -> None:
    slow = CommonDrift(math.log(0.87), 50)
    given: dict[str, Any] = {"is_floor": True, "drift": slow, "is_drift_to_come": True}
    found = judge(replace(evidence(*[-0.13] * LAST_RUN, **given), has_reference_environment=True))
    assert (found.outcome, found.rule, found.common_drift, found.upper) == (Outcome.REGRESSED, Rule.BASELINE, 0.0, None)


def test_good_sessions_move_the_reference_of_rule_2_and_not_that_of_rule_1() -> None:
    history = [SessionChanges(str(number), (-0.01,) * 3, Outcome.PASS) for number in range(13)]
    assert by_runs(-0.025, past=history).outcome is Outcome.PASS
    assert by_runs(-0.025).outcome is Outcome.REGRESSED
    assert by_pairs(-0.04, past=history).outcome is Outcome.REGRESSED


# Thresholds that sessions widen


def of_sessions(sd: float) -> list[SessionChanges]:
    """Sessions that differ by a standard deviation, and of which none was reported."""
    draws = [-1.0, 1.2, 0.4, -0.7, 1.0, -1.3, 0.2, 0.9, -0.5, -0.1, 0.8, -0.9]
    return [SessionChanges(str(number), (sd * draw,) * 3, Outcome.PASS) for number, draw in enumerate(draws)]


@pytest.mark.parametrize(
    ("sd", "outcome", "is_wider"),
    [(0.002, Outcome.PASS, False), (0.035, Outcome.PASS, True), (0.06, Outcome.TOO_NOISY, True)],
)
def test_a_threshold_that_sessions_widened_is_told_and_beyond_10_per_cent_nothing_passes(
    sd: float, outcome: Outcome, is_wider: bool
) -> None:
    past = of_sessions(sd)
    found = verdict(0.0, past=past, tests=5, variance=session_variance([(ONE_PER_CENT, ROW.runs, past)], tests=5))
    assert (found.outcome, found.threshold_recorded is not None) == (outcome, is_wider)
    assert found.threshold_recorded is None or found.threshold_recorded == pytest.approx(0.045, abs=0.001)


def test_a_drift_that_widens_a_noisy_tests_threshold_is_not_laid_to_its_sessions() -> None:
    """A threshold of 11 % when it was recorded, and of 16 % in a session that is a fifth slower."""
    noisy = Noise(between_runs=0.05, degrees_of_freedom=200, rows=50)
    found = verdict(-0.2, noise=noisy, tests=9, drift=CommonDrift(math.log(0.8), 9, 0.001))
    assert found.outcome is Outcome.PASS
    assert found.threshold_recorded == pytest.approx(0.11, abs=0.005)


def test_without_earlier_sessions_the_threshold_is_as_recorded() -> None:
    assert verdict(0.0, **FEW).threshold_recorded is None


# The figures


def test_one_run_passes_between_lower_and_upper() -> None:
    found = verdict(0.0, noise=QUIET, tests=50)
    error = 0.001 * math.sqrt(1 + 1.07 / 5)
    assert found.lower == pytest.approx(980 * math.exp(1.5 * error))
    assert found.upper == pytest.approx(1020)
    assert found.lower is not None
    inside, outside = found.lower / 1000 - 1 + 1e-9, found.lower / 1000 - 1 - 1e-9
    assert [verdict(change, noise=QUIET).is_decided for change in (inside, outside)] == [True, False]


def test_the_threshold_by_pairs_is_the_mean_loss_of_20_pairs_that_reaches_the_bound_of_the_suspects() -> None:
    found = verdict(0.0, confirmed=[], noise=NOISY, suspects=4, tolerance=0.05)
    share = 0.01 / 4
    variance = 2 * (0.05 * scipy.stats.t.ppf(share, 200) / scipy.stats.norm.ppf(share)) ** 2
    accepted = -math.log(0.95)
    tau = accepted + math.log(3 / share) * variance / (2 * accepted * MOST_PAIRS)
    assert (found.threshold, found.tests) == (pytest.approx(1 - math.exp(-tau), rel=1e-4), 4)


def test_the_threshold_by_runs_is_what_noise_explains_among_all_tests() -> None:
    found = verdict(0.0, noise=NOISY, tests=40)
    tau = scipy.stats.t.ppf(1 - 0.01 / 40, 200) * 0.05 * math.sqrt(1 / 8 + 1.07 / 5)
    assert (found.threshold, found.tests) == (pytest.approx(1 - math.exp(-tau), abs=5e-5), 40)


def test_what_sessions_do_to_a_test_widens_the_threshold_by_runs_only() -> None:
    moving = session_variance(tests=3)
    assert (verdict(0.0, variance=moving).threshold or 0) > (verdict(0.0).threshold or 0)
    assert verdict(0.0, confirmed=[], variance=moving).threshold == verdict(0.0, confirmed=[]).threshold


def test_windows_more_restless_than_the_baselines_widen_the_threshold_and_not_the_suspicion() -> None:
    calm, restless = verdict(0.0), verdict(0.0, error=0.1)
    assert (restless.threshold or 0) > (calm.threshold or 0)
    assert restless.lower == calm.lower
    assert verdict(0.0, error=math.inf).threshold == calm.threshold


# Stopping early


@pytest.mark.parametrize(
    ("change", "error", "stops"),
    [(0.0, 0.001, True), (-0.2, 0.001, False), (0.0, 0.01, False), (0.0, math.inf, False)],
    ids=["surely good", "bad", "uncertain", "of unknown error"],
)
def test_only_good_news_stops_a_run(change: float, error: float, stops: bool) -> None:
    run = RunValue(math.log(1000 * (1 + change)), error, 20)
    row = Target(ROW, noise=ONE_PER_CENT)
    assert may_stop_early(run, row, Tolerance.of(0.02), has_reference_environment=False) is stops


def test_a_run_without_a_baseline_takes_all_its_steps() -> None:
    assert not may_stop_early(RunValue(1.0, 0.0, 20), Target(), Tolerance(), has_reference_environment=False)


@given(changes, st.floats(0, 0.1), st.floats(0.001, 0.05), st.none() | st.just(()))
def test_a_run_that_stopped_is_no_suspect_by_itself(
    change: float, error: float, between_runs: float, confirmed: tuple[float, ...] | None
) -> None:
    target = Target(ROW, noise=Noise(between_runs=between_runs, degrees_of_freedom=200))
    run = RunValue(math.log(1000 * (1 + change)), error, 20)
    if may_stop_early(run, target, Tolerance.of(0.02), has_reference_environment=confirmed is not None):
        found = judge(replace(evidence(change, confirmed=confirmed), target=target))
        assert found.outcome in (Outcome.PASS, Outcome.IMPROVED)


# Pitfalls, by simulation: each is what a simpler rule gets wrong


def simulated(
    draw: random.Random, *, loss: float = 0.0, sb: float = 0.01, session: float = 0.0, spike: float = 0.0, **given: Any
) -> Verdict:
    """One test, confirmed by pairs, whose baseline of five runs was recorded in another session."""
    reference = math.exp(math.fsum(draw.gauss(0, sb) for _ in range(5)) / 5)
    row = baseline(1000.0 * reference)
    first = math.expm1(draw.gauss(session + math.log1p(-loss) + math.log1p(-spike), sb))
    ratios: list[float] = []
    while not (found := verdict(first, confirmed=ratios, row=row, tests=50, suspects=4, **given)).is_decided:
        ratios.append(math.expm1(draw.gauss(math.log1p(-loss), sb * math.sqrt(2))))
    return found


def rate_of(outcome: Outcome, sessions: int = 400, **truth: Any) -> float:
    draw = random.Random(5)
    return sum(simulated(draw, **truth).outcome is outcome for _ in range(sessions)) / sessions


@pytest.mark.parametrize("sb", [0.005, 0.01, 0.02, 0.04])
def test_a_test_that_lost_nothing_hardly_ever_fails(sb: float) -> None:
    noise = Noise(between_runs=sb, degrees_of_freedom=200)
    assert rate_of(Outcome.REGRESSED, sb=sb, noise=noise) <= 0.01


def test_pairs_that_agree_show_a_loss_that_runs_on_a_restless_machine_do_not() -> None:
    assert by_runs(-0.06, noise=NOISY).outcome is Outcome.INCONCLUSIVE
    assert verdict(-0.06, confirmed=[-0.06, -0.05, -0.055] * 4, noise=NOISY).outcome is Outcome.REGRESSED


def test_a_first_run_that_noise_could_make_look_good_is_no_pass_where_pairs_can_tell() -> None:
    assert verdict(0.0, noise=NOISY).outcome is Outcome.PASS
    found = verdict(0.0, confirmed=[], noise=NOISY)
    assert (found.outcome, found.reason, found.wants) == (Outcome.INCONCLUSIVE, Reason.SUSPECTED, Wants(Want.PAIRS, 1))
    assert verdict(0.08, confirmed=[], noise=NOISY).is_decided


def test_a_rise_that_no_float_can_hold_has_no_upper_end() -> None:
    assert verdict(0.0, noise=Noise(between_runs=0.05, degrees_of_freedom=0.3)).upper is None


def test_one_slow_run_fails_nobody() -> None:
    assert rate_of(Outcome.REGRESSED, spike=0.12) == 0


def test_a_slow_session_fails_nobody_even_where_its_drift_is_unknown() -> None:
    assert rate_of(Outcome.REGRESSED, session=-0.05) == 0


def test_a_loss_of_five_per_cent_is_detected() -> None:
    assert rate_of(Outcome.REGRESSED, loss=0.05) >= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("sb", [0.005, 0.01, 0.02])
def test_the_minimum_detectable_slowdown_is_detected_19_times_in_20(sb: float) -> None:
    noise = Noise(between_runs=sb, degrees_of_freedom=200)
    least = verdict(0.0, confirmed=[], noise=noise, tests=50, suspects=4).min_detectable_slowdown
    assert least is not None
    assert 0.93 <= rate_of(Outcome.REGRESSED, loss=least, sb=sb, noise=noise) <= 0.995


def test_eight_tests_tell_the_drift_from_a_test_that_lost_something() -> None:
    drift = common_drift([-0.03] * 9 + [-0.08])
    assert by_runs(math.expm1(-0.03), drift=drift).outcome is Outcome.PASS
    assert by_runs(math.expm1(-0.08), drift=drift).outcome is Outcome.REGRESSED
