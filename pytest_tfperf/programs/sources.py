"""Tells the series of rates in one output apart: ranks that share it, training beside evaluation, running averages."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from pytest_tfperf.programs.reading import Unreadable

_MODE = re.compile(r"\b(train|eval|valid|val(?!ue)|test|predict|infer)\w{0,8}\b", re.IGNORECASE)
_EVALUATION = ("eval", "valid", "val", "test", "predict", "infer")
_RANK = re.compile(
    r"\b(?:rank|local_rank|worker|gpu|device|process|replica|node)\W{0,2}(\d{1,4})\b"
    r"|^\[(?:\d+,|default|rank)?(\d+)\](?:<std\w+>)?:",
    re.IGNORECASE,
)
_COUNTER = re.compile(r"\b(?:step|iter|iteration|it|batch|global_step)s?\W{0,3}(\d{1,12})", re.IGNORECASE)
_LEAST_OF_ANOTHER = 3  # lines of a second series; one or two may be a total at the end
_LEAST_READINGS = 80  # from which a running average can be told
_SHOWN_COLUMNS = 120


def step_in(line: str) -> int | None:
    """The step that a line names; None if it names none."""
    found = _COUNTER.search(line)
    return None if found is None else int(found[1])


class Sources:
    """Lets the lines of one series pass.

    The first series is the program's. Lines that say that they are of evaluation are left out where the first ones are
    not. A second series of another kind is refused: an average of both would be neither.

    Attributes:
        left_out: how many lines of evaluation were left out.
    """

    def __init__(self) -> None:
        self._first: tuple[str, str] | None = None
        self._first_line = ""
        self._others: Counter[tuple[str, str]] = Counter()
        self._step: int | None = None
        self._advanced = self._repeated = 0
        self.left_out = 0

    def accept(self, line: str) -> bool:
        """Whether a line with a rate is one of the first series.

        Raises:
            Unreadable: a second series is there.
        """
        mode, rank = _MODE.search(line), _RANK.search(line)
        key = (mode[1].lower() if mode else "", (rank[1] or rank[2]) if rank else "")
        if self._first is None:
            self._first, self._first_line = key, line
        if key == self._first:
            self._require_new_step(line)
            return True
        if key[0] in _EVALUATION and self._first[0] not in _EVALUATION:
            self.left_out += 1
            return False
        self._others[key] += 1
        if self._others[key] >= _LEAST_OF_ANOTHER:
            self._refuse(line, by_rank=key[1] != self._first[1])
        return False

    def _require_new_step(self, line: str) -> None:
        """Refuse an output in which most steps stand twice: two processes print into it without saying which."""
        step, before = step_in(line), self._step
        if step is None:
            return
        self._step = step
        self._repeated += step == before
        self._advanced += step != before
        # A number that never changes, as "batch 32", is no counter.
        if min(self._repeated, self._advanced) >= _LEAST_OF_ANOTHER and self._repeated > 0.7 * self._advanced:
            raise Unreadable(
                f"most steps have several lines, as {line.strip()[:_SHOWN_COLUMNS]!r}: several processes seem to print "
                "into one output",
                "let one process print the rate of all, or give reads=Reads(pattern=...) that finds one line of a step",
            )

    def _refuse(self, line: str, *, by_rank: bool) -> None:
        shown = " and ".join(repr(each.strip()[:_SHOWN_COLUMNS]) for each in (self._first_line, line))
        ranks = "let one rank print the rate of all, or " if by_rank else ""
        raise Unreadable(
            f"two series of rates are in one output: {shown}",
            f"{ranks}give reads=Reads(pattern=...) that finds the lines of one of them",
        )


def is_running_average(rates: Sequence[float]) -> bool:
    """Whether successive rates look like averages since the first one.

    The k-th average differs from the one before by a k-th of one value's deviation: such differences shrink like 1/k.
    Undone, the values are as scattered early as late, and neighbours are not correlated. Recent rates, undone in
    the same way, are correlated by about -1/2; rates that settle after a cold start are correlated strongly at first.
    benchmarks/averages.py measures both errors.
    """
    if len(rates) < _LEAST_READINGS:
        return False
    differences = [abs(b - a) for a, b in pairwise(rates)][2:]
    third = len(differences) // 3
    early, late = statistics.fmean(differences[:third]), statistics.fmean(differences[-third:])
    shrinks = statistics.fmean(1 / k for k in range(4, 4 + third)) / statistics.fmean(
        1 / k for k in range(len(rates) - third, len(rates))
    )
    if late <= 0 or early / late < math.sqrt(shrinks):
        return False
    undone = [k * b - (k - 1) * a for k, (a, b) in enumerate(pairwise(rates), 2)]
    half = len(undone) // 2
    return all(-0.25 < _neighbours_correlation(part) < 0.35 for part in (undone[2:half], undone[half:]))


def _neighbours_correlation(values: Sequence[float]) -> float:
    try:
        return statistics.correlation(values[:-1], values[1:])
    except statistics.StatisticsError:  # all are equal
        return 1.0
