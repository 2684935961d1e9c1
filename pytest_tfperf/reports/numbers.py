"""Numbers in words, the same in all reports."""

from __future__ import annotations

import math
from typing import Final

from pytest_tfperf.core.figure import SHARE

SMALLEST_SHOWN: Final = 0.0005
"""A smaller fraction is 0.0 % in a text."""


def rate(examples_per_sec: float) -> str:
    """Write examples per second: "1,612", "640.3", "7.25"; below 1 with four significant digits, "0.09551"."""
    if examples_per_sec >= 999.95:  # rounds to 1000.0
        return f"{examples_per_sec:,.0f}"
    if examples_per_sec >= 0.99995:
        return f"{examples_per_sec:.1f}" if examples_per_sec >= 99.995 else f"{examples_per_sec:.2f}"
    return f"{examples_per_sec:.4g}"


def interval(low: float, high: float) -> str:
    """Write an interval of rates: "1,464 to 1,563"; "" where it is not known."""
    return f"{rate(low)} to {rate(high)}" if low > 0 and math.isfinite(high) else ""


def percent(fraction: float) -> str:
    """Write a fraction without its sign: "13.0 %", "5 %"."""
    text = f"{abs(fraction) * 100:.1f}"
    return f"{text.removesuffix('.0') if abs(fraction) < 0.1 else text} %"


def whole_percent(fraction: float) -> str:
    """Write a fraction without decimals: "87 %"."""
    return f"{fraction * 100:.0f} %"


def change(fraction: float) -> str:
    """Write a change with its sign: "-13.0 %", "+0.4 %"."""
    return f"{fraction * 100:+z.1f} %"


def compared(fraction: float) -> str:
    """Write a change in words: "13.0 % slower than", "level with"."""
    if abs(fraction) < SMALLEST_SHOWN:
        return "level with"
    return f"{percent(fraction)} {'slower' if fraction < 0 else 'faster'} than"


def duration(seconds: float) -> str:
    """Write a duration: "45 s", "2 min 10 s", "1 h 5 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


_SIZES: Final = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def milliseconds(seconds: float) -> str:
    """Write a short time: "0.12 ms", "31.4 ms".

    >>> milliseconds(0.0314159)
    '31.4 ms'
    """
    return f"{1000 * seconds:,.3g} ms"


def size(size_bytes: float | None) -> str:
    """Write a size with three digits: "15.9 GiB", "400 MiB"; "? GiB" where it is not known."""
    if size_bytes is None:
        return "? GiB"
    prefix, unit = prefix_of(size_bytes)
    amount = size_bytes / unit
    return f"{amount:.3g} {prefix}" if abs(amount) < 999.5 else f"{amount:,.0f} {prefix}"


def written_in(unit: str, value: float) -> str:
    """Write a value in its unit: "18.3 GiB", "1.42 s", "2.301"; a share in percent."""
    if unit == SHARE:
        return percent(value)
    return size(value) if unit == "bytes" else f"{value:.4g} {unit}".rstrip()


def prefix_of(size_bytes: float) -> tuple[str, int]:
    """Return the unit in which a size is easy to read, and its bytes: "GiB", 2**30."""
    return next(((prefix, unit) for prefix, unit in _SIZES if abs(size_bytes) >= unit), ("B", 1))


def time_span(least: float, most: float) -> str:
    """Write an expected time: "about 45 s" if its ends differ by a factor of two at most, else "10 s to 2 min"."""
    if 0 < most <= 2 * least:
        return f"about {duration(math.sqrt(least * most))}"
    most = 60 * math.ceil(most / 60) if most > 60 else most
    return f"{duration(least)} to {duration(most)}" if least >= 1 else f"up to {duration(most)}"


def counted(number: int, what: str) -> str:
    """Write a number with its noun: "1 run", "3 runs"."""
    return f"{number} {what}{'' if number == 1 else 's'}"
