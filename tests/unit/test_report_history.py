"""Since when a test is slower: the results in a row that are nearer to today's than to the reference."""

from __future__ import annotations

from dataclasses import replace

import pytest
from measurements import measurement

from pytest_tfperf.reports.page.past import as_result, spell

ONE = as_result(measurement())


def days(*rates: float) -> int:
    """How many of the last results belong to the spell, where the reference is 100."""
    return len(spell([replace(ONE, examples_per_sec=rate) for rate in rates], 100.0))


def test_the_first_slow_result_is_a_spell_of_one() -> None:
    assert days(100, 101, 99, 90) == 1


def test_a_spell_begins_with_its_first_slow_result() -> None:
    assert days(100, 101, 90, 91, 89) == 3


@pytest.mark.parametrize("lucky", [100.0, 130.0])
def test_one_lucky_result_does_not_end_a_spell(lucky: float) -> None:
    assert days(100, 90, 91, lucky, 90, 89) == 5


def test_a_slow_result_by_itself_before_does_not_begin_it() -> None:
    assert days(100, 90, 100, 100, 90, 89) == 2


def test_a_gain_has_a_spell_too() -> None:
    assert days(100, 101, 110, 111) == 2


def test_a_test_that_was_always_slow_has_no_beginning() -> None:
    assert days(90, 90, 90) == 3
