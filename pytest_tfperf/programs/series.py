"""Tells the series of rates in one output apart: training and evaluation, several ranks, steps and their summaries."""

from __future__ import annotations

import re
from collections import Counter

from pytest_tfperf.programs.progress_lines import looks_like_progress
from pytest_tfperf.programs.reading import Kind, Reading, Unreadable, shown
from pytest_tfperf.programs.step_order import StepOrder, counters_in, step_in

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
    """What stays of a line where its numbers change."""
    return _VARIES.sub("", line)


def _modes_of_metrics(said: str) -> set[str]:
    return {(found[1] or "").lower() for found in _METRIC_OF.finditer(said)}


class FirstSeries:
    """Lets the lines of the first series pass, which is the program's.

    Lines that say that they are of evaluation are left out where the first ones are not, and so are lines of another
    form, such as the mean of an epoch between those of its steps. A second series of another kind is refused: an
    average of both would be neither.

    Args:
        is_described: the user's own pattern or field finds the lines, so that only ranks and evaluation matter.

    Attributes:
        left_out: how many lines of evaluation were left out.
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
        """How many lines of another series were left out, which are too few to be one."""
        return self._others.total() + self._of_other_form

    def accept(self, reading: Reading, said: str, form: str, *, is_whole: bool = True) -> bool:
        """Whether a line with a rate is one of the first series.

        Args:
            reading: with its line as the program printed it.
            said: what of it may say of which series it is.
            form: of the line; "" where all its lines have one form.
            is_whole: it has its end; one that has none yet comes once more.

        Raises:
            Unreadable: a second series is there.
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
        found, rank = _MODE.search(said), _RANK.search(said)
        mode = found[1].lower() if found else ""
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
        """Whether it is the next line of the series, and no summary of what its lines have said."""
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
        """Whether a line of another form says more or less than the first, or counts on as that does."""
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
