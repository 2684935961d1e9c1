"""What the pairs of a comparison say of a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict, Want
from pytest_tfperf.judging.figures import ComparedFigure, judge_compared, settled
from pytest_tfperf.judging.pairs import ErrorRates

LOSS = Figure("loss")
MEMORY = Figure("peak_memory")
BLEU = Figure("bleu", better="higher", field="bleu")


def judged(figure: Figure, *pairs: tuple[float | None, float | None]) -> Verdict:
    evidence = ComparedFigure(figure=figure, pairs=pairs, most_pairs=20, error_rates=ErrorRates())
    return judge_compared(evidence)


def gib(*pairs: tuple[float, float]) -> Sequence[tuple[float, float]]:
    return [(a * 2**30, b * 2**30) for a, b in pairs]


@pytest.mark.parametrize(
    ("figure", "a", "b", "outcome"),
    [
        (LOSS, 1.0, 1.0, Outcome.PASS),
        (LOSS, 1.0, 1.06, Outcome.REGRESSED),
        (LOSS, 1.0, 0.94, Outcome.REGRESSED),
        (LOSS, 0.0, 0.0, Outcome.PASS),
        (BLEU, 30.0, 28.0, Outcome.REGRESSED),
        (BLEU, 30.0, 32.0, Outcome.IMPROVED),
    ],
)
def test_a_figure_that_never_varies_is_decided_by_three_pairs(
    figure: Figure, a: float, b: float, outcome: Outcome
) -> None:
    found = judged(figure, *[(a, b)] * 3)
    assert (found.outcome, found.is_decided) == (outcome, True)


def test_two_pairs_decide_nothing() -> None:
    assert not judged(LOSS, *[(1.0, 2.0)] * 2).is_decided


def test_a_page_more_is_accepted_by_the_absolute_tolerance() -> None:
    assert judged(MEMORY, *[(1e6, 2e6)] * 3).outcome is Outcome.PASS


def test_a_noisy_suspect_wants_one_more_pair_and_is_in_doubt_without_it() -> None:
    found = judged(MEMORY, *gib((1.0, 1.2), (1.1, 1.1), (1.0, 1.3)))
    assert (found.wants.what, found.wants.count) == (Want.PAIRS, 4)
    assert settled(found).outcome is Outcome.INCONCLUSIVE
    assert settled(found).is_decided


def test_a_suspect_that_stays_within_the_tolerance_passes_when_no_pair_is_left() -> None:
    found = judged(LOSS, (1.0, 1.02), (1.0, 1.07), (1.0, 1.045))
    assert not found.is_decided
    assert settled(found).outcome is Outcome.PASS


def test_noise_that_hides_no_change_wants_nothing() -> None:
    assert judged(MEMORY, *gib((1.0, 1.001), (1.001, 1.0), (1.0, 0.999))).outcome is Outcome.PASS


def test_the_limit_holds_for_b_only() -> None:
    figure = Figure("loss", absolute=9.0, limit=1.5)
    assert judged(figure, *[(1.0, 2.0)] * 3).reason is Reason.BEYOND_LIMIT
    assert judged(figure, *[(2.0, 1.0)] * 3).outcome is Outcome.PASS
    assert judged(figure, *[(None, 2.0)] * 3).outcome is Outcome.REGRESSED


def test_a_figure_that_a_side_lacks_never_passes() -> None:
    not_measured = judged(LOSS, (1.0, 1.0), (1.0, None))
    assert (not_measured.reason, not_measured.value) == (Reason.NOT_MEASURED, None)
    lacking = judged(LOSS, (1.0, 1.0), (None, 1.0))
    assert (lacking.outcome, lacking.reason) == (Outcome.NO_BASELINE, Reason.OTHER_SIDE_LACKS)


def test_a_value_that_is_not_finite_is_invalid_on_either_side() -> None:
    assert judged(LOSS, *[(1.0, math.nan)] * 3).outcome is Outcome.INVALID
    assert judged(LOSS, *[(math.inf, 1.0)] * 3).outcome is Outcome.INVALID


def test_sides_that_print_a_figure_at_different_places_are_not_compared() -> None:
    evidence = ComparedFigure(
        figure=LOSS,
        pairs=[(2.0, 2.0)] * 3,
        places=("at step 400", "at step 460"),
        most_pairs=20,
        error_rates=ErrorRates(),
    )
    found = judge_compared(evidence)
    assert (found.outcome, found.reason) == (Outcome.INVALID, Reason.OTHER_PLACE)


def test_the_limit_holds_for_a_side_that_prints_a_figure_at_another_place() -> None:
    evidence = ComparedFigure(
        figure=Figure("loss", limit=3.0),
        pairs=[(2.0, 4.0)] * 3,
        places=("at step 400", "at step 460"),
        most_pairs=20,
        error_rates=ErrorRates(),
    )
    assert judge_compared(evidence).outcome is Outcome.REGRESSED
