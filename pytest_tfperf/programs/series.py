"""Tells the series of rates in one output apart: training and evaluation, several ranks, and running averages."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from pytest_tfperf.programs.reading import Unreadable, shown

_METRIC = r"(?:loss|acc|top|ppl|perplexity|err|metric|score|f1|auc|psnr|map)"
# "train", "eval_step" and "eval_images", but neither "train_loss" nor "val loss".
_MODE = re.compile(
    rf"\b(train|eval|valid|val(?!ue)|test|predict|infer)[a-z]{{0,8}}(?:_(?!{_METRIC})[a-z]{{1,20}})*\b(?! ?{_METRIC})",
    re.IGNORECASE,
)
# "val_loss" and the like, of which a line of training may tell the last value, and a plain "loss".
_METRIC_OF = re.compile(
    rf"\b(?:(train|eval|valid|val|test)[a-z]{{0,8}}[ _/-]{_METRIC}|(?<![a-z] )loss\b)", re.IGNORECASE
)
_EVALUATION = ("eval", "valid", "val", "test", "predict", "infer")
# Neither "tokens/s/device: 166.2" nor "GPU: 97 %".
_RANK = re.compile(
    r"(?<![a-z]/)(?<!per )\b(?:rank|local_rank|worker|gpu|device|process|replica|node)\W{0,3}(\d{1,4})\b"
    r"(?!\.\d|,\d{3}(?!\d)|\s?(?:%|\u00b0|[CW]\b|[kMGT]i?B\b))"
    r"|^\[(?:\d+,|default|rank)?(\d+)\](?:<std\w+>)?:",
    re.IGNORECASE,
)
_COUNTER = re.compile(
    r"\b(?:step|iter|iteration|it|batch|global_step)s?\W{0,3}(\d{1,3}(?:,\d{3})+|\d{1,12})(?!\d|\.\d|\s?(?:%|[mu]?s\b))",
    re.IGNORECASE,
)
_MOST_OF_OTHERS = 10  # lines of several other series
_LEAST_OF_ANOTHER = 3  # lines of a second series; one or two may be a total at the end
_LEAST_READINGS = 80  # from which a running average can be told


def step_in(line: str) -> int | None:
    """The step that a line names; None if it names none."""
    found = _COUNTER.search(line)
    return None if found is None else int(found[1].replace(",", ""))


def _modes_of_metrics(said: str) -> set[str]:
    return {(found[1] or "").lower() for found in _METRIC_OF.finditer(said)}


class FirstSeries:
    """Lets the lines of the first series pass, which is the program's.

    Lines that say that they are of evaluation are left out where the first ones are not. A second series of another
    kind is refused: an average of both would be neither.

    Args:
        is_described: the user's own pattern or field finds the lines, so that only ranks and evaluation matter.

    Attributes:
        left_out: how many lines of evaluation were left out.
    """

    def __init__(self, *, is_described: bool = False) -> None:
        self._is_described = is_described
        self._first: tuple[str, str] | None = None
        self._first_line = ""
        self._names_training = False
        self._others: Counter[tuple[str, str]] = Counter()
        self._step: int | None = None
        self._advanced = self._repeated = 0
        self.left_out = 0

    @property
    def others(self) -> int:
        """How many lines of another series were left out, which are too few to be one."""
        return self._others.total()

    def accept(self, line: str, said: str, *, is_whole: bool = True, is_counter: bool = False) -> bool:
        """Whether a line with a rate is one of the first series.

        Args:
            line: as the program printed it.
            said: what of it may say of which series it is.
            is_whole: it has its end; one that has none yet comes once more.
            is_counter: its value is a counter, which may be printed twice.

        Raises:
            Unreadable: a second series is there.
        """
        key = self._series(said)
        if self._first is None:
            self._first, self._first_line = key, line
            self._names_training = key[0] == "train" or bool({"train", ""} & _modes_of_metrics(said))
        if key == self._first:
            if is_whole and not is_counter:
                self._require_new_step(line)
            return True
        if key[0] in _EVALUATION and self._first[0] not in _EVALUATION:
            self.left_out += is_whole
            return False
        self._others[key] += is_whole
        if self._others[key] >= _LEAST_OF_ANOTHER or self.others >= _MOST_OF_OTHERS:
            self._refuse(line, by_rank=key[1] != self._first[1])
        return False

    def _series(self, said: str) -> tuple[str, str]:
        found, rank = _MODE.search(said), _RANK.search(said)
        mode = found[1].lower() if found else ""
        modes = _modes_of_metrics(said)
        if not mode and self._names_training and modes and not modes & {"train", ""}:
            mode = "eval"
        if self._is_described and mode not in _EVALUATION:
            mode = ""
        return mode, (rank[1] or rank[2]) if rank else ""

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
                f"most steps have several lines, as {shown(line)!r}: several processes seem to print into one output",
                "let one process print the rate of all, or give reads=Reads(pattern=...) that finds one line of a step",
            )

    def _refuse(self, line: str, *, by_rank: bool) -> None:
        both = " and ".join(repr(shown(each)) for each in (self._first_line, line))
        ranks = "let one rank print the rate of all, or " if by_rank else ""
        if self._is_described:
            step = f"{ranks}give parse=, a function that returns None for the lines of all others"
        else:
            step = f"{ranks}give reads=Reads(pattern=...) that finds the lines of one of them"
        raise Unreadable(f"two series of rates are in one output: {both}", step)


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
