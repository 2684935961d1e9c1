"""The search for the first slow state: which is asked next, what the answers say, and how its error is shared."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.features.bisect.search import (
    TOTAL_ERROR,
    candidates,
    comparisons,
    error_rates,
    is_slow,
    next_state,
    threshold_of,
)


def searched(states: int, answer: Callable[[int], bool | None]) -> tuple[range, int]:
    """What a search ends with whose comparisons are never wrong, and how many it made."""
    known: dict[int, bool | None] = {}
    while (state := next_state(states, known)) is not None:
        known[state] = answer(state)
    return candidates(states, known), len(known)


@given(st.integers(1, 200).flatmap(lambda states: st.tuples(st.just(states), st.integers(1, states))))
def test_right_answers_lead_to_the_change_in_as_many_comparisons_as_were_announced(case: tuple[int, int]) -> None:
    states, first_slow = case
    found, made = searched(states, lambda state: state >= first_slow)
    assert (found, made + 2 <= comparisons(states)) == (range(first_slow, first_slow + 1), True)


@given(st.integers(1, 40), st.data())
def test_what_can_not_be_measured_leaves_only_its_neighbours_in_doubt(states: int, data: st.DataObject) -> None:
    first_slow = data.draw(st.integers(1, states))
    skipped = data.draw(st.sets(st.integers(1, max(1, states - 1)), max_size=states)) - {states}
    found, _ = searched(states, lambda state: None if state in skipped else state >= first_slow)
    assert first_slow in found
    assert set(found[:-1]) <= skipped


@given(st.integers(1, 1000))
def test_the_shares_of_the_error_add_up_to_the_whole(states: int) -> None:
    rates = error_rates(states)
    assert comparisons(states) * max(rates.false_alarms, rates.false_passes) == pytest.approx(TOTAL_ERROR)


def test_the_threshold_is_half_of_the_loss() -> None:
    found = threshold_of(0.81)
    assert (found.lower, found.upper) == (pytest.approx(-0.1), None)


@pytest.mark.parametrize(
    ("outcome", "ratio", "slow"),
    [
        (Outcome.REGRESSED, 0.96, True),
        (Outcome.PASS, 0.94, False),
        (Outcome.INCONCLUSIVE, 0.94, True),
        (Outcome.INCONCLUSIVE, 0.96, False),
    ],
)
def test_an_undecided_comparison_counts_as_its_likelier_answer(outcome: Outcome, ratio: float, slow: bool) -> None:
    assert is_slow(outcome, ratio, Tolerance(-0.05, None)) is slow
