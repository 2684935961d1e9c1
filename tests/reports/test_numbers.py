"""Figures as they are written everywhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.reports.numbers import change, compared, duration, percent, rate, size, time_span

RATES = {
    7.25: "7.25",
    99.994: "99.99",
    99.996: "100.0",
    640.3: "640.3",
    999.94: "999.9",
    999.96: "1,000",
    1612: "1,612",
    0.095512: "0.09551",
    0.0955: "0.0955",
}
PERCENTAGES = {0.13: "13.0 %", -0.13: "13.0 %", 0.05: "5 %", 0.025: "2.5 %", 0.1: "10.0 %", 0: "0 %"}
CHANGES = {-0.13: "-13.0 %", 0.004: "+0.4 %", 0.0: "+0.0 %", -0.0001: "+0.0 %"}
COMPARISONS = {-0.13: "13.0 % slower than", 0.02: "2 % faster than", 0.0004: "level with"}
DURATIONS = {0: "0 s", 45: "45 s", 59.6: "1 min", 130: "2 min 10 s", 3599.6: "1 h 0 min", 3900: "1 h 5 min"}
SIZES = {
    0: "0 B",
    400 * 2**20: "400 MiB",
    16e9: "14.9 GiB",
    2**30 - 1: "1,024 MiB",
    999.6 * 2**10: "1,000 KiB",
    -3e5: "-293 KiB",
}


@pytest.mark.parametrize(
    ("form", "written"),
    [
        (rate, RATES),
        (percent, PERCENTAGES),
        (change, CHANGES),
        (compared, COMPARISONS),
        (duration, DURATIONS),
        (size, SIZES),
    ],
)
def test_a_figure_is_written_so(form: Callable[[float], str], written: dict[float, str]) -> None:
    assert {figure: form(figure) for figure in written} == written


@given(st.floats(0.01, 1e6), st.floats(1, 100))
def test_a_higher_rate_never_reads_lower(examples_per_sec: float, factor: float) -> None:
    low, high = (float(rate(value).replace(",", "")) for value in (examples_per_sec, examples_per_sec * factor))
    assert low <= high


SPANS = {
    (45, 45): "about 45 s",
    (40, 80): "about 57 s",
    (40, 81): "40 s to 2 min",
    (0, 65): "up to 2 min",
    (3, 9): "3 s to 9 s",
}


@pytest.mark.parametrize("span", SPANS)
def test_an_expected_time_is_one_number_within_a_factor_of_two_and_else_a_range(span: tuple[float, float]) -> None:
    assert time_span(*span) == SPANS[span]


@given(st.floats(1, 1e5), st.floats(1, 100))
def test_an_expected_time_that_is_one_number_is_never_wrong_by_more_than_a_factor_of_two(
    least: float, factor: float
) -> None:
    is_one_number = time_span(least, least * factor).startswith("about ")
    assert is_one_number == (least * factor <= 2 * least)
