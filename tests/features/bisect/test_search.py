"""The search for the first bad state: which is asked next, what the answers say, and how its error is shared."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.features.bisect.search import (
    TOTAL_ERROR,
    Answer,
    Search,
    Side,
    answer_of,
    comparisons,
    error_rates,
    threshold_of,
)
from pytest_tfperf.judging.pairs import PairsDecision


def searched(states: int, side_of: Callable[[int], Side]) -> tuple[range, int]:
    """What a search ends with whose comparisons are never wrong, and how many it made."""
    answers: dict[int, Answer] = {}
    while (state := Search(states, answers).next) is not None:
        answers[state] = Answer(side=side_of(state))
    return Search(states, answers).candidates, len(answers)


@given(st.integers(1, 200).flatmap(lambda states: st.tuples(st.just(states), st.integers(1, states))))
def test_right_answers_lead_to_the_change_in_as_many_comparisons_as_were_announced(case: tuple[int, int]) -> None:
    states, first_bad = case
    found, made = searched(states, lambda state: Side.BAD if state >= first_bad else Side.GOOD)
    assert (found, made + 2 <= comparisons(states)) == (range(first_bad, first_bad + 1), True)


@given(st.integers(1, 40), st.data())
def test_what_can_not_be_measured_leaves_only_its_neighbours_in_doubt(states: int, data: st.DataObject) -> None:
    first_bad = data.draw(st.integers(1, states))
    skipped = data.draw(st.sets(st.integers(1, max(1, states - 1)), max_size=states)) - {states}

    def side_of(state: int) -> Side:
        if state in skipped:
            return Side.SKIPPED
        return Side.BAD if state >= first_bad else Side.GOOD

    found, _ = searched(states, side_of)
    assert first_bad in found
    assert set(found[:-1]) <= skipped


@given(st.integers(1, 1000))
def test_the_shares_of_the_error_add_up_to_the_whole(states: int) -> None:
    rates = error_rates(states)
    assert comparisons(states) * max(rates.false_alarms, rates.false_passes) == pytest.approx(TOTAL_ERROR)


def test_the_threshold_is_half_of_the_loss() -> None:
    found = threshold_of(0.81)
    assert (found.lower, found.upper) == (pytest.approx(-0.1), None)


def decision(outcome: Outcome, ratio: float) -> PairsDecision:
    return PairsDecision(ratio, ratio - 0.01, ratio + 0.01, outcome, "")


@pytest.mark.parametrize(
    ("outcome", "ratio", "side", "is_sure"),
    [
        (Outcome.REGRESSED, 0.9, Side.BAD, True),
        (Outcome.PASS, 1.0, Side.GOOD, True),
        (Outcome.INCONCLUSIVE, 0.94, Side.BAD, False),
        (Outcome.INCONCLUSIVE, 0.96, Side.GOOD, False),
    ],
)
def test_an_undecided_comparison_counts_as_its_likelier_answer(
    outcome: Outcome, ratio: float, side: Side, is_sure: bool
) -> None:
    answer = answer_of(decision(outcome, ratio), Tolerance(-0.05, None), 3)
    assert (answer.side, answer.is_sure, answer.pairs) == (side, is_sure, 3)


def test_a_skipped_state_has_no_ratio() -> None:
    assert math.isnan(Answer(side=Side.SKIPPED).ratio)
