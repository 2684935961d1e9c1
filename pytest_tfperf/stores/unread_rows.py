"""Rows of a history that can't be read here: damaged ones, and those of a newer version."""

from __future__ import annotations

from typing import Final, final

from pytest_tfperf.safe_text import shortened

_MOST_NAMED: Final = 3


@final
class UnreadRows:
    """Which rows were left out so far, and why; one that is met again counts once."""

    def __init__(self) -> None:
        self._why: dict[str, str] = {}

    def add(self, row: str, why: str) -> None:
        """Note a row, "measurement 1a2b", and the sentence that says why it was left out."""
        self._why[row] = why

    def __str__(self) -> str:
        """How many, which and why, in a sentence; "" for none."""
        if not self._why:
            return ""
        named = list(self._why.values())[:_MOST_NAMED]
        more = f"; and {len(self._why) - len(named)} more" if len(self._why) > len(named) else ""
        rows = "1 row" if len(self._why) == 1 else f"{len(self._why)} rows"
        why = "; ".join(shortened(one, 400) for one in named)
        return f"{rows} of the history can't be read and left out, damaged or of a newer pytest-tfperf: {why}{more}"
