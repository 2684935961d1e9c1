"""A value in a CSV that people open in a spreadsheet."""

from __future__ import annotations

from typing import Final, TypeVar

from pytest_tfperf.safe_text import printable

_T = TypeVar("_T")

_BEGIN_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_cell(value: _T) -> _T | str:
    """A text as a spreadsheet only shows it: after a quote where it would be a formula. A number stays as it is.

    >>> csv_cell("=cmd|'/c calc'!A1"), csv_cell("-1.5"), csv_cell(-1.5)
    ("'=cmd|'/c calc'!A1", '-1.5', -1.5)
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if value.startswith(_BEGIN_FORMULA) and not _is_number(value) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip() == text
