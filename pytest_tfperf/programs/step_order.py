"""Refuses steps that can't be of one process: most of them are repeated, or they fall by a little again and again."""

from __future__ import annotations

import math
import re

from pytest_tfperf.programs.reading import Unreadable, shown

_COUNTER = re.compile(
    r"\b(?P<word>step|iter|iteration|it|batch|global_step)s?\W{0,3}(?P<number>\d{1,3}(?:,\d{3})+|\d{1,12})"
    r"(?!\d|[.,]\d|\s?(?:%|(?:[mun\u00b5]?s|sec|seconds?)\b))",
    re.IGNORECASE,
)
_LEAST = 3  # lines that one process can't have printed
_MOST_REPEATED = 0.7  # of the lines that advance
_MOST_DISORDERED = 0.1  # of all lines


def step_in(line: str) -> int | None:
    """The step that a line names; None if it names none."""
    found = _COUNTER.search(line)
    return None if found is None else int(found["number"].replace(",", ""))


def counters_in(line: str) -> frozenset[str]:
    """What the line's counters are called."""
    return frozenset(found["word"].lower() for found in _COUNTER.finditer(line))


class StepOrder:
    """The steps of one series of lines, in the order in which they were printed.

    Of one process they rise, and may begin anew with each epoch. Of several in one output, most stand twice; or a step
    falls by less than half, or to a later step than it fell to before, and rises at once above the highest step.
    """

    def __init__(self) -> None:
        self._step: float | None = None
        self._line = ""
        self._forms: set[str] = set()  # of the lines of this step
        self._highest = 0.0
        self._lowest = math.inf  # the step of the last line that fell
        self._is_behind = False  # whether that step is later than the one that the line before it fell to
        self._lines = self._advanced = self._repeated = self._disordered = 0

    def take(self, step: float, line: str, form: str) -> None:
        """Add a line's step.

        Args:
            step: as the line counts it.
            line: for the message.
            form: only lines of one form repeat a step; "" for a line that may be drawn again.

        Raises:
            Unreadable: several processes print into one output.
        """
        last, self._step = self._step, step
        last_line, self._line = self._line, line
        self._lines += 1
        if step == last:
            self._repeated += form in self._forms
            # A number that never changes, as "batch 32", is no counter.
            is_repeated = min(self._repeated, self._advanced) >= _LEAST
            if is_repeated and self._repeated > _MOST_REPEATED * self._advanced:
                raise _several("most steps have several lines", last_line, line)
        else:
            self._advanced += 1
            self._forms.clear()
            if last is not None and (last / 2 < step < last or (self._is_behind and last < self._highest < step)):
                self._disordered += 1
                if self._disordered >= _LEAST and self._disordered > _MOST_DISORDERED * self._lines:
                    raise _several("its steps fall and rise again", last_line, line)
        # Each epoch begins with the same step; another process that is far behind goes on.
        self._is_behind = last is not None and self._lowest < step < last
        if last is not None and step < last:
            self._lowest = step
        self._forms |= {form} - {""}
        self._highest = max(self._highest, step)


def _several(fact: str, *lines: str) -> Unreadable:
    both = " and ".join(repr(shown(line)) for line in lines)
    return Unreadable(
        f"{fact}, as {both}: several processes seem to print into one output",
        "let one process print the rate of all, or give reads=Reads(pattern=...) that finds the lines of one; if they "
        "are of one process, print what tells them apart, or give parse=, a function of a line that returns its rate",
    )
