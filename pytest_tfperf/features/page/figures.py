"""Figures and times as the facts hold them: few digits, because a year of sessions has 100,000 of them."""

from __future__ import annotations

import math

from pytest_tfperf.core.iso_time import moment

_DIGITS = 5


def figure(value: float | None, digits: int = _DIGITS) -> float | None:
    """The value with this many significant digits; None for infinity and NaN, which JSON can't hold."""
    if value is None:
        return None
    rounded = float(f"{value:.{digits}g}")
    if not math.isfinite(rounded):
        return None
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def day(time: str) -> str:
    """A date as people write it: "17 Nov 2026"; a text that is no time stays as it is."""
    parsed = moment(time)
    return time if parsed.year == 1 else f"{parsed.day} {parsed:%b %Y}"
