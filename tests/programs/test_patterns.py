"""Patterns of a user's own for the rate, and the ones that our messages suggest."""

from __future__ import annotations

import re

import pytest

from pytest_tfperf.core.command import Reads
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.programs.own_formats import OwnLines
from pytest_tfperf.programs.reading import Unreadable

LINES = {
    "speed 1.2e3 img/s": 1200.0,
    "speed 1.2e3, loss 2": 1200.0,
    "speed 1,500.5 img/s": 1500.5,
    "speed 12.5; next": 12.5,
    "(speed 12.5)": 12.5,
}


def read(line: str, pattern: str) -> float | None:
    found = OwnLines("", pattern).find(line)
    return found and found.number


def example() -> str:
    """The pattern that the error for one without a group shows."""
    with pytest.raises(WorkloadError, match="has no named group") as refused:
        Reads(pattern="speed (.*)")
    found = re.search("r'(.*)'", str(refused.value))
    assert found
    return found[1]


@pytest.mark.parametrize(("line", "rate"), LINES.items())
def test_the_pattern_of_our_own_example_reads_what_programs_print(line: str, rate: float) -> None:
    assert read(line, example()) == rate


@pytest.mark.parametrize("line", ["speed 1.2e3 img/s", "speed 1,500.5 img/s", "speed 12.5k of", "speed 1.2e3, loss 2"])
def test_the_pattern_that_is_suggested_for_a_part_of_a_number_reads_all_of_it(line: str) -> None:
    with pytest.raises(Unreadable, match="a part of a number only") as refused:
        read(line, r"speed (?P<rate>[\d.]+)")
    suggested = re.search(r"\(\?P<rate>.*\)", refused.value.next_step)
    assert suggested
    whole = {"speed 12.5k of": 12500.0, **LINES}
    assert read(line, f"speed {suggested[0]}") == whole[line]
