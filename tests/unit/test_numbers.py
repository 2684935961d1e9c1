from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.reports.numbers import change, duration, percent, rate


@pytest.mark.parametrize(
    ("images_per_sec", "text"),
    [
        (7.25, "7.25"),
        (99.994, "99.99"),
        (99.996, "100.0"),
        (640.3, "640.3"),
        (999.94, "999.9"),
        (999.96, "1,000"),
        (1612, "1,612"),
    ],
)
def test_a_rate_has_as_many_digits_as_it_takes(images_per_sec: float, text: str) -> None:
    assert rate(images_per_sec) == text


@given(st.floats(0.01, 1e6), st.floats(1, 100))
def test_a_higher_rate_never_reads_lower(images_per_sec: float, factor: float) -> None:
    low, high = (float(rate(value).replace(",", "")) for value in (images_per_sec, images_per_sec * factor))
    assert low <= high


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.13, "13.0 %"), (-0.13, "13.0 %"), (0.05, "5 %"), (0.025, "2.5 %"), (0.1, "10.0 %"), (0, "0 %")],
)
def test_a_percentage_has_no_sign(fraction: float, text: str) -> None:
    assert percent(fraction) == text


@pytest.mark.parametrize(
    ("fraction", "text"), [(-0.13, "-13.0 %"), (0.004, "+0.4 %"), (0.0, "+0.0 %"), (-0.0001, "+0.0 %")]
)
def test_a_change_has_a_sign(fraction: float, text: str) -> None:
    assert change(fraction) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (45, "45 s"),
        (59.6, "1 min"),
        (130, "2 min 10 s"),
        (3599.6, "1 h 0 min"),
        (3900, "1 h 5 min"),
        (90000, "25 h 0 min"),
    ],
)
def test_a_duration_is_written_as_one_says_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text
