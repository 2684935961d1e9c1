"""Separates the series of rates in one output: training and evaluation, several ranks, steps and their summaries."""

from __future__ import annotations

import math
import re
from collections import Counter

from pytest_tfperf.programs.progress_lines import looks_like_progress
from pytest_tfperf.programs.reading import Kind, Reading, Unreadable, counters_in, shown, step_in

_METRIC = r"(?:loss|acc|top|ppl|perplexity|err|metric|score|f1|auc|psnr|map)"
# "train", "eval_step" and "eval_images", but neither "train_loss" nor "val loss".
_MODE = re.compile(
    rf"\b(train|eval|valid|val(?!ue)|test|predict|infer)[a-z]{{0,8}}(?:_(?!{_METRIC})[a-z]{{1,20}})*\b(?! ?{_METRIC})",
    re.IGNORECASE,
)
# "val_loss" and the like, whose last value a line of training may have, and a plain "loss".
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
_MOST_OF_OTHERS = 10  # lines of several other series
_LEAST_OF_ANOTHER = 3  # lines of a second series; one or two may be a total at the end
# Numbers, and units that change with their size: "950 ms/step" and "1.1 s/step", "3.6 it/s" and "1.2 s/it".
_VARIES = re.compile(
    r"\d+ days?\b|[+-]?(?:\d[\d.,:]*(?:e[+-]?\d+)?(?:\s?(?:[kmg]|[mun\u00b5]?s(?:ec)?|it)(?![a-z]))?|"
    r"(?<![a-z])(?:nan|inf)\b)(?:/(?:s|it)\b)?|\s",
    re.IGNORECASE,
)
_SUMMARY = re.compile(r"epoch|mean|average|avg|total|overall|summary|final|best", re.IGNORECASE)


def form_of(line: str) -> str:
    """A line without its numbers, which is the same for all lines of a series."""
    return _VARIES.sub("", line)


def _modes_of_metrics(said: str) -> set[str]:
    return {(metric[1] or "").lower() for metric in _METRIC_OF.finditer(said)}


class FirstSeries:
    """Accepts the lines of the first series in an output, which is taken for the program's training.

    Lines that name evaluation are left out if the first lines don't, and so are lines of another form, such as the mean
    of an epoch between the rates of its steps. A second series of another kind is refused: an average of both would be
    neither.

    Args:
        is_described: the user's own pattern or field selects the lines, so that only ranks and evaluation matter.

    Attributes:
        left_out: the number of lines of evaluation that were left out.
    """

    def __init__(self, *, is_described: bool = False) -> None:
        self._is_described = is_described
        self._first: tuple[str, str] | None = None
        self._first_line = self._form = ""
        self._counters: frozenset[str] = frozenset()
        self._is_average = False
        self._names_training = False
        self._others: Counter[tuple[str, str]] = Counter()
        self._order = StepOrder()
        self._step: int | None = None
        self._of_other_form = self._in_a_row = self._taken = 0
        self.left_out = 0

    @property
    def others(self) -> int:
        """The number of other lines that were left out, too few to be a series."""
        return self._others.total() + self._of_other_form

    def accept(self, reading: Reading, said: str, form: str, *, is_whole: bool = True) -> bool:
        """Whether a line with a rate belongs to the first series.

        Args:
            reading: with its line as the program printed it.
            said: the text that may name its series.
            form: of the line; "" where all lines have the same form.
            is_whole: the line has its end; an unfinished line comes once more.

        Raises:
            Unreadable: there is a second series.
        """
        key, line = self._series(said), reading.line
        if self._first is None:
            self._first = key
            self._names_training = key[0] == "train" or bool({"train", ""} & _modes_of_metrics(said))
            self._begin(reading, form)
        if key == self._first:
            return self._is_next(reading, form) if is_whole else True
        if key[0] in _EVALUATION and self._first[0] not in _EVALUATION:
            self.left_out += is_whole
            return False
        self._others[key] += is_whole
        if self._others[key] >= _LEAST_OF_ANOTHER or self._others.total() >= _MOST_OF_OTHERS:
            self._refuse(line, by_rank=key[1] != self._first[1])
        return False

    def _series(self, said: str) -> tuple[str, str]:
        named, rank = _MODE.search(said), _RANK.search(said)
        mode = named[1].lower() if named else ""
        modes = _modes_of_metrics(said)
        if not mode and self._names_training and modes and not modes & {"train", ""}:
            mode = "eval"
        if self._is_described and mode not in _EVALUATION:
            mode = ""
        return mode, (rank[1] or rank[2]) if rank else ""

    def _begin(self, reading: Reading, form: str) -> None:
        self._first_line, self._form, self._taken = reading.line, form, 0
        self._counters, self._is_average = counters_in(reading.line), reading.is_named_average

    def _is_next(self, reading: Reading, form: str) -> bool:
        """Whether it is the next line of the series, and no summary of earlier lines."""
        line = reading.line
        if reading.kind.is_counter:
            is_drawn_again = reading.kind is Kind.STEP and looks_like_progress(line)
            self._order.take(reading.value, line, "" if is_drawn_again else form_of(line))
            return True
        step = step_in(line)
        if form != self._form and not self._is_a_variant(reading, step, form):
            self._of_other_form += 1
            self._in_a_row += 1
            if self._taken > 1 or self._in_a_row < _LEAST_OF_ANOTHER:
                if self._in_a_row >= _MOST_OF_OTHERS:
                    self._refuse(line, by_rank=False)
                return False
            self._begin(reading, form)  # the first line was alone, and a first reading is warm-up
        self._in_a_row = 0
        self._taken += 1
        if step is not None:
            self._order.take(step, line, form_of(line))
            self._step = step
        return True

    def _is_a_variant(self, reading: Reading, step: int | None, form: str) -> bool:
        """Whether a line of another form only adds to the first line or lacks its end, or goes on with its counters."""
        short, long = sorted((form, self._form), key=len)
        if self._counters:
            is_alike = counters_in(reading.line) == self._counters and step != self._step
        else:
            is_alike = long.startswith(short) and not _SUMMARY.search(long.removeprefix(short))
        return is_alike and reading.is_named_average == self._is_average

    def _refuse(self, line: str, *, by_rank: bool) -> None:
        both = " and ".join(repr(shown(each)) for each in (self._first_line, line))
        ranks = "let one rank print the rate of all, or " if by_rank else ""
        if self._is_described:
            step = f"{ranks}give parse=, a function that returns None for the lines of all others"
        else:
            step = f"{ranks}give reads=Reads(pattern=...) that finds the lines of one of them"
        raise Unreadable(f"two series of rates are in one output: {both}", step)


_LEAST = 3  # lines that one process can't have printed
_MOST_REPEATED = 0.7  # of the lines that advance
_MOST_DISORDERED = 0.1  # of all lines


class StepOrder:
    """The steps of a series of lines in the order of the output; refuses steps of several processes.

    The steps of a single process rise, and may begin anew with each epoch. Those of several are mostly repeated; or a
    step falls by less than half, or to a later step than it fell to before, and rises at once above the highest step.
    """

    def __init__(self) -> None:
        self._step: float | None = None
        self._line = ""
        self._forms: set[str] = set()  # of the lines of this step
        self._highest = 0.0
        self._lowest = math.inf  # the step of the last line that fell
        self._is_behind = False  # whether that step is later than the step of the line that fell before it
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
            # A number that never changes, such as "batch 32", is no counter.
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
        # Each epoch begins with the same step; another process that is far behind continues.
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
