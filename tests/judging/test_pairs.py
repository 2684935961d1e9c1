"""The sequential test of pairs: its laws, and how often it errs."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_tfperf.core.verdict import NOTHING, Outcome, Reason, Want, Wants
from pytest_tfperf.judging.noise import ASSUMED_BETWEEN_RUNS, FALSE_ALARMS
from pytest_tfperf.judging.pairs import (
    EXPECTED_PAIRS,
    MIN_PAIRS,
    MOST_PAIRS,
    PAIRS_THAT_TELL,
    PairsTest,
    Scatter,
    Terms,
    trimmed_mean,
)

TWO_PERCENT = -math.log(0.98)
ASSUMED = Scatter(2 * ASSUMED_BETWEEN_RUNS**2, EXPECTED_PAIRS)
MEASURED = Scatter(2 * 0.01**2, 200)
UNKNOWN = Scatter(0.0, 0.0)

WORST_FIRST = (Outcome.REGRESSED, Outcome.INCONCLUSIVE, Outcome.PASS, Outcome.IMPROVED)

any_changes = st.lists(st.floats(-0.5, 0.5).map(lambda x: round(x, 6)), min_size=1, max_size=MOST_PAIRS)
scatters = st.sampled_from(
    [{"known": ASSUMED, "is_assumed": True}, {"known": MEASURED}, {"known": UNKNOWN, "is_assumed": True}]
)


def pairs_test(changes: Sequence[float], **given: Any) -> PairsTest:
    usual = {"accepted": TWO_PERCENT, "accepted_rise": TWO_PERCENT, "known": ASSUMED, "is_assumed": True}
    if "known" in given:
        usual["is_assumed"] = False
    return PairsTest(changes=changes, **usual | given)


def outcome(changes: Sequence[float], **given: Any) -> Outcome:
    return pairs_test(changes, **given).decided()[0]


def goodness(changes: Sequence[float], **given: Any) -> int:
    return WORST_FIRST.index(outcome(changes, **given))


@given(any_changes, st.floats(0, 1), scatters)
def test_a_faster_b_never_fares_worse(changes: list[float], more: float, scatter: dict[str, Any]) -> None:
    losses_only = scatter | {"accepted_rise": math.inf}
    assert goodness([x + more for x in changes], **losses_only) >= goodness(changes, **losses_only)


@given(any_changes, scatters)
def test_the_evidence_for_a_gain_is_that_for_a_loss_of_the_mirrored_pairs(
    changes: list[float], scatter: dict[str, Any]
) -> None:
    there, back = pairs_test(changes, **scatter), pairs_test([-x for x in changes], **scatter)
    assert there.evidence_of_rise == pytest.approx(back.evidence)
    assert there.interval == pytest.approx(tuple(-end for end in reversed(back.interval)))


@given(any_changes, scatters, st.integers(1, 50), st.integers(1, 50))
def test_more_suspects_make_a_failure_harder(
    changes: list[float], scatter: dict[str, Any], few: int, more: int
) -> None:
    alone, among = (outcome(changes, tests=tests, **scatter) for tests in (few, few + more))
    assert alone is Outcome.REGRESSED or among is not Outcome.REGRESSED


@given(any_changes, scatters)
def test_what_regressed_lost_more_than_the_tolerance_in_six_pairs_at_least(
    changes: list[float], scatter: dict[str, Any]
) -> None:
    test = pairs_test(changes, **scatter)
    found, reason, wants = test.decided()
    if found is Outcome.REGRESSED:
        assert test.middle < -TWO_PERCENT
        assert len(changes) >= PAIRS_THAT_TELL
        assert (reason, wants) == (Reason.CONFIRMED, NOTHING)


@given(any_changes, scatters)
def test_undecided_pairs_want_one_more_and_the_last_pair_decides(changes: list[float], scatter: dict[str, Any]) -> None:
    found, reason, wants = pairs_test(changes, **scatter).decided()
    if wants != NOTHING:
        assert (found, reason) == (Outcome.INCONCLUSIVE, Reason.SUSPECTED)
        assert wants == Wants(Want.PAIRS, len(changes) + 1)
    assert pairs_test(changes, terms=Terms(max_pairs=len(changes)), **scatter).decided()[2] == NOTHING


@given(any_changes, scatters)
def test_a_further_count_of_pairs_has_a_lower_threshold(changes: list[float], scatter: dict[str, Any]) -> None:
    test = pairs_test(changes, **scatter)
    thresholds = [test.threshold_in(count) for count in (PAIRS_THAT_TELL, 10, MOST_PAIRS, 100)]
    assert thresholds == sorted(thresholds, reverse=True)
    assert thresholds[-1] >= TWO_PERCENT


@pytest.mark.parametrize(("change", "reason"), [(0.03, Reason.TOO_FEW), (-0.03, Reason.WITHIN_NOISE)])
def test_pairs_that_end_too_soon_call_only_a_slower_side_slower(change: float, reason: Reason) -> None:
    assert pairs_test([change], terms=Terms(max_pairs=1)).decided() == (Outcome.INCONCLUSIVE, reason, NOTHING)


def test_before_the_first_pair_nothing_is_known_and_one_is_wanted() -> None:
    test = pairs_test([], known=MEASURED)
    assert test.decided() == (Outcome.INCONCLUSIVE, Reason.SUSPECTED, Wants(Want.PAIRS, 1))
    assert test.interval == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("change", "count", "expected"),
    [
        (0.0, MIN_PAIRS, Outcome.PASS),
        (0.1, MIN_PAIRS, Outcome.IMPROVED),
        (-0.1, PAIRS_THAT_TELL - 1, Outcome.INCONCLUSIVE),
        (-0.1, PAIRS_THAT_TELL, Outcome.REGRESSED),
    ],
)
@pytest.mark.parametrize("known", [UNKNOWN, Scatter(0.0, 100)], ids=["unknown", "measured"])
@pytest.mark.parametrize("accepted", [0.0, 0.02])
def test_a_figure_that_never_varies_is_decided_by_the_fewest_pairs(
    change: float, count: int, expected: Outcome, known: Scatter, accepted: float
) -> None:
    given = {"known": known, "is_assumed": known is UNKNOWN, "accepted": accepted, "accepted_rise": 0.02}
    assert outcome([change] * (count - 1), **given) is Outcome.INCONCLUSIVE
    assert outcome([change] * count, **given) is expected


@pytest.mark.parametrize(("loss", "expected"), [(0.0, Outcome.PASS), (1.0, Outcome.REGRESSED)])
def test_without_a_tolerance_noise_decides_what_is_a_loss(loss: float, expected: Outcome) -> None:
    draw = random.Random(1)
    changes = [draw.gauss(-loss, 0.5) for _ in range(MOST_PAIRS)]
    assert outcome(changes, accepted=0.0, known=UNKNOWN, is_assumed=True) is expected


def test_pairs_that_agree_decide_whatever_else_the_machine_did() -> None:
    """Ratios of a program that mostly waits, on a machine whose cores others take now from one side, now from both."""
    changes = [-0.182 + 0.0005 * (-1) ** n for n in range(PAIRS_THAT_TELL)]
    given = {"errors": [1.3] * PAIRS_THAT_TELL, "accepted": 0.05}
    assert outcome(changes, **given) is Outcome.REGRESSED
    assert outcome(changes[:-1], **given) is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("known", [{}, {"known": MEASURED}], ids=["assumed", "measured"])
def test_a_loss_that_disturbances_of_one_side_explain_is_no_regression(known: dict[str, Any]) -> None:
    changes = [-0.1, -0.11, -0.09, -0.1, -0.12, -0.08]
    errors = [0.2] * len(changes)
    assert outcome(changes, errors=errors, **known) is Outcome.REGRESSED
    assert outcome(changes, errors=errors, bias=0.1, **known) is Outcome.INCONCLUSIVE


def test_restless_windows_want_more_pairs() -> None:
    assert outcome([0.0] * MIN_PAIRS) is Outcome.PASS
    assert outcome([0.0] * MIN_PAIRS, errors=[0.1] * MIN_PAIRS) is Outcome.INCONCLUSIVE


def test_one_uneven_pair_says_nothing_about_the_others() -> None:
    calm = pairs_test([0.0] * 5, errors=[0.001] * 5)
    assert pairs_test([0.0] * 5, errors=[*[0.001] * 4, 3.0]).variance == calm.variance


def test_a_machine_that_is_quieter_than_its_baselines_is_judged_by_its_pairs() -> None:
    spells = Scatter(2 * 0.05**2, 200)  # both runs of a pair share them
    assert outcome([-0.05, -0.051, -0.049] * 2, known=spells) is Outcome.REGRESSED


def test_an_unbounded_drop_never_fails() -> None:
    assert outcome([-3.0, -3.1, -2.9, -3.0] * 2, accepted=math.inf, accepted_rise=math.inf) is Outcome.PASS


@pytest.mark.parametrize("wild", [-0.6, 0.6])
def test_one_wild_pair_adds_no_more_than_any_other(wild: float) -> None:
    calm = [0.001, -0.002, 0.0, 0.003, -0.001]
    assert outcome([*calm, wild], known=MEASURED) is Outcome.PASS


def test_a_last_pair_that_leaves_little_evidence_passes_and_much_is_in_doubt() -> None:
    little = [-0.018, -0.021] * (MOST_PAIRS // 2)
    much = [-0.0205, -0.0206] * (MOST_PAIRS // 2)
    known = Scatter(2 * 0.002**2, 200)
    assert outcome(little, known=known) is Outcome.PASS
    assert outcome(much, known=known) in (Outcome.INCONCLUSIVE, Outcome.REGRESSED)
    assert pairs_test(much[:5], known=known, terms=Terms(max_pairs=5)).decided()[1:] == (Reason.WITHIN_NOISE, NOTHING)


@pytest.mark.parametrize(("count", "expected"), [(9, 10 / 9), (10, 0.0)])
def test_from_ten_on_one_value_at_either_end_is_cut_off(count: int, expected: float) -> None:
    assert trimmed_mean([10.0, *[0.0] * (count - 1)]) == pytest.approx(expected)


def test_the_mean_of_the_rest_is_no_winsorised_one() -> None:
    assert trimmed_mean([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.5, 100.0]) == pytest.approx(36.5 / 8)


@pytest.mark.parametrize("between_pairs", [0.005, 0.014, 0.028])
def test_an_unchanged_side_regresses_in_one_comparison_of_100(between_pairs: float) -> None:
    """3 standard errors of the simulation are allowed."""
    trials = 300
    alarms = _share(0.0, between_pairs, trials)
    assert alarms <= FALSE_ALARMS + 3 * math.sqrt(FALSE_ALARMS / trials)


def test_a_loss_of_five_percent_is_detected_where_workers_differ_by_one() -> None:
    assert _share(math.log(0.95), 0.01 * math.sqrt(2), 200) >= 0.97


def test_a_smaller_error_rate_takes_more_evidence() -> None:
    usual, strict = pairs_test([0.0]), pairs_test([0.0], terms=Terms(false_alarms=0.001, false_passes=0.001))
    assert strict.fails_at == pytest.approx(usual.fails_at + math.log(10))
    assert strict.passes_at == pytest.approx(usual.passes_at - math.log(25))


def _share(truth: float, between_pairs: float, trials: int) -> float:
    """The share of comparisons that end with REGRESSED."""
    draw = random.Random(4)
    return sum(_ends(draw, truth, between_pairs) is Outcome.REGRESSED for _ in range(trials)) / trials


def _ends(draw: random.Random, truth: float, between_pairs: float) -> Outcome:
    changes: list[float] = []
    while True:
        changes.append(draw.gauss(truth, between_pairs))
        found, _, wants = pairs_test(changes).decided()
        if wants == NOTHING:
            return found


def test_pairs_that_scatter_far_more_than_was_recorded_are_judged_by_their_own_scatter() -> None:
    calm = Scatter(2 * 0.01**2, 200)
    wild = [-0.14, 0.02, -0.13, 0.05, -0.09, -0.05]
    assert pairs_test(wild, known=calm).scatter.variance > 4 * calm.variance
    assert outcome(wild, known=calm) is not Outcome.REGRESSED


@given(any_changes)
@example([-0.18, 0.12] * (MOST_PAIRS // 2))
def test_a_loss_beyond_the_tolerance_that_assumed_noise_may_explain_never_passes(changes: list[float]) -> None:
    test = pairs_test(changes)
    assert test.decided()[0] not in (Outcome.PASS, Outcome.IMPROVED) or test.middle >= -TWO_PERCENT


@pytest.mark.parametrize("count", [PAIRS_THAT_TELL, MOST_PAIRS, 500])
def test_more_pairs_make_the_bias_of_one_side_no_smaller(count: int) -> None:
    """What disturbances of one side did to all pairs is not averaged away."""
    assert pairs_test([-0.05] * count, bias=0.02).scatter.variance / count >= 0.02**2


def test_each_further_figure_takes_more_evidence_to_fail() -> None:
    assert pairs_test([0.0], tests=10).fails_at == pytest.approx(pairs_test([0.0]).fails_at + math.log(10))


@pytest.mark.parametrize(
    ("rise", "expected"), [(0.02, Outcome.IMPROVED), (0.2, Outcome.PASS), (math.inf, Outcome.PASS)]
)
def test_a_gain_counts_by_its_own_tolerance(rise: float, expected: Outcome) -> None:
    assert outcome([0.1] * MIN_PAIRS, accepted_rise=rise) is expected
