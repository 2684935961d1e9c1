"""Numbers as programs print them: thousands separators, k, M and G, NaN."""

from __future__ import annotations

import re

SEPARATORS = ",'_\u2019\u00a0\u2009\u202f"
"""What stands between groups of thousands. A plain space does, too, but it also stands between two numbers."""

_DIGITS = (
    rf"(?:\d{{1,3}}(?:[{SEPARATORS}]\d{{3}}){{1,6}}(?:\.\d{{1,30}})?|\d{{1,20}}(?:\.\d{{0,30}})?|\.\d{{1,30}})"
    r"(?:[eE][+-]?\d{1,3})?"
)
NUMBER = rf"(?:[+-]?(?:{_DIGITS}|nan|inf(?:inity)?))"
"""A regular expression for one number, to be used with re.ASCII and re.IGNORECASE."""

BEGIN = rf"(?<![\w.+-])(?<!\d[{SEPARATORS}])"
"""Before a number: not in the middle of a word or of another number."""

END = rf"(?!\w|[.{SEPARATORS}]\d)"
"""After a number, as `BEGIN`."""

_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_WHOLE = re.compile(rf"\s*(?P<number>{NUMBER})\s?(?P<factor>[kKMG]?)\s*", re.ASCII | re.IGNORECASE)


def to_float(number: str, factor: str = "") -> float:
    """The value of a text that `NUMBER` matches, times k, M or G."""
    return float(re.sub(f"[{SEPARATORS}]", "", number)) * _FACTORS[factor.lower()]


def number_in(value: object) -> float | None:
    """A number, also where it is written as a text such as "1,500" or "1.5k"; None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if not isinstance(value, str):
        try:
            return float(value)
        except OverflowError:
            return None
    found = _WHOLE.fullmatch(value)
    # "m" would be a thousandth.
    return None if found is None or found["factor"] == "m" else to_float(found["number"], found["factor"])
