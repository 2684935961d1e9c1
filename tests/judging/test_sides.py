"""The verdicts on the sides of a comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.run import Pair
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import NOTHING, Outcome, Reason, Rule, Tolerance, Verdict, Want, Wants
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.pairs import Terms
from pytest_tfperf.judging.target import Target
from tests.helpers.measurements import figure_evidence, run_at

LOSS = Figure("loss")
MEMORY = Figure("peak_memory")
BLEU = Figure("bleu", better="higher", field="bleu")
COMPILATIONS = Figure("compilations")


def judged(figure: Figure, *pairs: tuple[float | None, float | None], **more: Any) -> Verdict:
    given = {"is_comparison": True, "terms": Terms()} | more
    return judge(figure_evidence(figure, (), None, None, pairs=pairs, **given))


def rate(
    changes: Sequence[float],
    *,
    tolerance: float = 0.02,
    terms: Terms | None = None,
    **more: Any,
) -> Verdict:
    pairs = [Pair(run_at(1000.0), run_at(1000.0 * (1 + x)), math.log1p(x), 0.001) for x in changes]
    return judge(
        Evidence(
            throughput=summarise([pair.b for pair in pairs]),
            target=Target(),
            tolerance=Tolerance.of(tolerance),
            pairs=pairs,
            is_comparison=True,
            terms=terms or Terms(),
            **more,
        )
    )


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ([5.83, 3.28, 15.31], Outcome.PASS),
        ([2.26, 1.01, 0.95, 6.22, 1.84], Outcome.PASS),
        ([0.87, 0.9, 2.92, 0.2, 1.83, 0.22, 3.66, 2.25], Outcome.INCONCLUSIVE),
    ],
    ids=["far above", "above", "about there"],
)
def test_noise_leaves_a_required_ratio_in_doubt_only_where_the_ratio_may_be_lower(
    changes: Sequence[float], outcome: Outcome
) -> None:
    assert rate(changes, terms=Terms(at_least=2.0)).outcome is outcome


def gib(*pairs: tuple[float, float]) -> Sequence[tuple[float, float]]:
    return [(a * 2**30, b * 2**30) for a, b in pairs]


def test_a_slower_side_regresses_by_what_its_pairs_show() -> None:
    found = rate([-0.05, -0.06, -0.04] * 3)
    assert (found.outcome, found.reason, found.rule) == (Outcome.REGRESSED, Reason.CONFIRMED, Rule.OTHER_SIDE)
    assert found.confirmed_change == pytest.approx(-0.05, abs=1e-3)
    assert found.interval is not None
    assert found.interval[0] < found.confirmed_change < found.interval[1]


@pytest.mark.parametrize(("change", "outcome"), [(0.0, Outcome.PASS), (0.2, Outcome.IMPROVED)])
def test_three_pairs_pass_a_side_that_is_as_fast_or_faster(change: float, outcome: Outcome) -> None:
    found = rate([change] * 3)
    assert (found.outcome, found.is_decided) == (outcome, True)


def test_sides_that_vary_too_much_to_tell_never_pass() -> None:
    found = rate([-0.9, 1.2, -0.85, 1.4, -0.8, 0.9] * 3, terms=Terms(max_pairs=18))
    assert (found.outcome, found.is_decided) == (Outcome.INCONCLUSIVE, True)


@pytest.mark.parametrize(
    ("figure", "a", "b", "outcome"),
    [
        (LOSS, 1.0, 1.0, Outcome.PASS),
        (LOSS, 1.0, 1.06, Outcome.REGRESSED),
        (LOSS, 1.0, 0.94, Outcome.REGRESSED),
        (LOSS, 0.0, 0.0, Outcome.PASS),
        (BLEU, 30.0, 28.0, Outcome.REGRESSED),
        (BLEU, 30.0, 32.0, Outcome.IMPROVED),
        (COMPILATIONS, 0.0, 0.0, Outcome.PASS),
        (COMPILATIONS, 0.0, 1.0, Outcome.REGRESSED),
    ],
)
def test_a_figure_that_never_varies_is_decided_by_six_pairs_at_most(
    figure: Figure, a: float, b: float, outcome: Outcome
) -> None:
    found = judged(figure, *[(a, b)] * 6)
    assert (found.outcome, found.is_decided) == (outcome, True)


def test_two_pairs_decide_nothing() -> None:
    assert judged(LOSS, *[(1.0, 1.0)] * 2).wants == Wants(Want.PAIRS, 3)


def test_a_page_more_is_accepted_by_the_absolute_tolerance() -> None:
    assert judged(MEMORY, *[(1e6, 2e6)] * 3).outcome is Outcome.PASS


def test_noise_that_hides_no_change_wants_nothing() -> None:
    assert judged(MEMORY, *gib((1.0, 1.001), (1.001, 1.0), (1.0, 0.999))).outcome is Outcome.PASS


def test_a_noisy_suspect_wants_one_more_pair_and_is_in_doubt_without_it() -> None:
    noisy = gib((1.0, 1.2), (1.1, 1.1), (1.0, 1.3))
    assert judged(MEMORY, *noisy).wants == Wants(Want.PAIRS, 4)
    last = judged(MEMORY, *noisy, terms=Terms(max_pairs=3))
    assert (last.outcome, last.wants) == (Outcome.INCONCLUSIVE, NOTHING)


def test_the_limit_holds_for_b_only() -> None:
    figure = Figure("loss", absolute=9.0, limit=1.5)
    assert judged(figure, *[(1.0, 2.0)] * 3).reason is Reason.BEYOND_LIMIT
    assert judged(figure, *[(2.0, 1.0)] * 3).outcome is Outcome.PASS
    assert judged(figure, *[(None, 2.0)] * 3).outcome is Outcome.REGRESSED
    assert judged(figure, (1.0, 2.0)).wants == Wants(Want.PAIRS, 3)


def test_a_figure_that_only_a_lacks_is_new() -> None:
    lacking = judged(LOSS, *[(None, 1.0)] * 3)
    assert (lacking.outcome, lacking.reason) == (Outcome.NO_BASELINE, Reason.OTHER_SIDE_LACKS)


@pytest.mark.parametrize(("b", "outcome"), [(1.0, Outcome.INVALID), (3.0, Outcome.REGRESSED)])
def test_where_a_gives_a_figure_in_some_runs_only_a_loss_fails_and_nothing_passes(b: float, outcome: Outcome) -> None:
    found = judged(LOSS, *[(1.0, b), (None, b)] * 7)
    assert (found.outcome, found.confirmed_from, found.is_decided) == (outcome, 1.0, True)
    assert found.reason is (Reason.OTHER_SIDE_LACKS if outcome is Outcome.INVALID else Reason.CONFIRMED)


@pytest.mark.parametrize(("bad", "reason"), [(None, Reason.NOT_MEASURED), (math.nan, Reason.NOT_FINITE)])
def test_a_value_that_b_alone_lacks_twice_fails_b(bad: float | None, reason: Reason) -> None:
    assert judged(LOSS, (1.0, bad)).wants == Wants(Want.PAIRS, 2)
    twice = judged(LOSS, (1.0, bad), (1.0, bad))
    assert (twice.outcome, twice.reason, twice.confirmed_from) == (Outcome.REGRESSED, reason, 1.0)
    once = judged(LOSS, (1.0, 1.0), (1.0, bad), (1.0, 1.0))
    assert (once.outcome, once.reason, once.is_decided) == (Outcome.INVALID, reason, True)


@pytest.mark.parametrize(
    ("figure", "a", "b"),
    [(LOSS, math.nan, math.nan), (LOSS, math.inf, 1.0), (LOSS, None, None), (MEMORY, 2.0**30, None)],
    ids=["both", "only a", "both lack it", "the system does not tell it"],
)
def test_a_value_that_is_lacking_for_another_reason_than_b_is_invalid(
    figure: Figure, a: float | None, b: float | None
) -> None:
    found = judged(figure, *[(a, b)] * 3)
    assert (found.outcome, found.is_decided) == (Outcome.INVALID, True)


def test_sides_that_print_a_figure_at_different_places_are_not_compared() -> None:
    found = judged(LOSS, *[(2.0, 2.0)] * 3, places=("at step 400", "at step 460"))
    assert (found.outcome, found.reason) == (Outcome.INVALID, Reason.OTHER_PLACE)


def test_the_limit_holds_for_a_side_that_prints_a_figure_at_another_place() -> None:
    found = judged(Figure("loss", limit=3.0), *[(2.0, 4.0)] * 3, places=("at step 400", "at step 460"))
    assert found.outcome is Outcome.REGRESSED
