"""Reads lines that show progress and are drawn over one another: Keras', and the bars of tqdm, rich and others."""

from __future__ import annotations

import math
import re

from pytest_tfperf.programs.reading import NUMBER, Kind, LeftOut, Reading, Unreadable, loss_in, number_in, shown

# "120/500 ━━━━ 12s 31ms/step - loss: 0.3", and "500/500 - 15s - 31ms/step" of verbose=2. Keras 2 has no time of a step
# before the end of an epoch: "120/500 [=====>....] - ETA: 12s".
_KERAS = re.compile(
    r"(?:^|\s)(?P<step>\d{1,12})/(?P<total>\d{1,12}|Unknown)\s"
    r"(?:(?P<between>(?:[^/]|s/epoch){0,120}?)\d{1,9}(?:us|µs|ms|s)/step|\[[=>. ]{3,60}\] - ETA: )",
    re.ASCII,
)
_KERAS_EPOCH = re.compile(r"Epoch \d{1,9}/\d{1,9}\s{0,9}", re.ASCII)
_MOST_UNFINISHED = 640  # progress lines are shorter


class KerasLines:
    """Reads Keras' progress lines.

    The total of the first line is that of `fit`. Lines with another total, such as those of `evaluate` and `predict`,
    are left out. A data set of unknown length has a total from the second epoch on.

    Where an epoch prints a single line, with verbose=2 or with a single step, its steps count on from epoch to epoch.
    Where epochs are announced by a line such as "Epoch 1/5", a bar without such a line is of `evaluate` or `predict`.
    """

    def __init__(self) -> None:
        self._total = ""
        self._before_fit = ""
        self._epoch_begins = self._names_epochs = self._is_after_epoch = False
        self._counts_on: bool | None = None  # None before the first line
        self._finished, self._step = 0, 0
        self._counts_first_steps = self._is_of_fewer_steps = False
        self._group = 0  # divides the steps before each line, as `steps_per_execution` does

    def read(self, line: str) -> Reading | LeftOut | None:
        """The reading of a progress line; None for any other line.

        Raises:
            Unreadable: the program evaluates before it trains.
        """
        if _KERAS_EPOCH.fullmatch(line.lstrip()):
            if self._before_fit and line.strip().startswith("Epoch 1/"):
                raise Unreadable(
                    f"progress lines stand before the first epoch, as {shown(self._before_fit)!r}",
                    "let the program evaluate after its training, or evaluate with verbose=0",
                )
            self._epoch_begins = True
            self._names_epochs |= self._counts_on is None
            return None
        bar = _keras_in(line)
        if bar is None:
            return None
        if not self._total or (self._total == "Unknown" and self._epoch_begins):
            self._total = bar["total"]
        if bar["total"] != self._total or self._is_without_epoch(bar):
            return LeftOut()
        is_alone = _is_alone(bar) or self._epoch_begins
        if self._counts_on is None:
            self._counts_on = is_alone and bar["step"] == bar["total"]
            self._before_fit = "" if self._epoch_begins else line
        if self._counts_on and is_alone:
            self._finished += self._step
        self._epoch_begins = False
        before, self._step = self._step, int(bar["step"])
        if self._step < before or not before:
            self._counts_first_steps = self._step == 1
        if self._step != before:
            # Under `steps_per_execution` a line counts the first of its steps: 1/50 and 21/50 are printed after 20 and
            # 40 steps, and 41/50 after ten more.
            steps, total = self._step - before, bar["total"]
            self._is_of_fewer_steps = steps > 1 and total.isdigit() and self._step - 1 + steps > int(total)
            if bar["step"] != bar["total"]:
                self._group = math.gcd(self._group, self._step - 1)
        counts_groups = self._counts_first_steps and self._group != 1
        # A group of steps may be longer than the rest of the epoch: Keras prints "60/50", and then "50/50".
        is_beyond = bar["total"].isdigit() and self._step > int(bar["total"])
        if (counts_groups and self._is_of_fewer_steps) or is_beyond:
            return LeftOut()
        value = self._finished + self._step
        return Reading(Kind.STEP, value, loss=loss_in(line), is_of_training=self._names_epochs)

    def read_unfinished(self, line: str) -> Reading | LeftOut | None:
        """The reading of a line that has no end yet: Keras ends a progress line with the next one."""
        bar = _keras_in(line) if len(line) <= _MOST_UNFINISHED else None
        return None if bar is None or _is_alone(bar) else self.read(line)

    def _is_without_epoch(self, bar: re.Match[str]) -> bool:
        """Whether it belongs to a bar that no epoch's line announced."""
        step = int(bar["step"])
        begins_anew = step < self._step or (_is_alone(bar) and step == self._step)
        self._is_after_epoch = not self._epoch_begins and (self._is_after_epoch or begins_anew)
        return self._names_epochs and self._is_after_epoch


def _keras_in(line: str) -> re.Match[str] | None:
    return _KERAS.search(line) if "/step" in line or "ETA: " in line else None


def _is_alone(bar: re.Match[str]) -> bool:
    """Whether a line has the form of verbose=2, which prints a single line for each epoch."""
    return (bar["between"] or "").startswith("- ")


# tqdm/tqdm, std.py, format_meter: "Epoch 0:  45%|████▌     | 45/100 [00:12<00:15,  3.61it/s, loss=0.5]", and without a
# total "45it [00:12,  3.61it/s]". People leave blanks and the rate out.
_TQDM = re.compile(
    r"(?:(?P<title>[^|]{0,200}?)\s{0,9}\d{1,3}%\s?\|[^|]{0,400}\|\s{0,9})?(?P<step>[\d.]{1,15}[kMGT]?)"
    r"(?:\s?/\s?(?P<total>[\d.]{1,15}[kMGT]?|\?))?\s?(?P<counted>[A-Za-z]{0,20})\s{0,9}"
    r"\[\s?[\d:]{4,12}\s?(?P<left><\s?[^,\]]{1,20})?"
    rf"(?:,\s{{0,9}}(?:\?|(?P<rate>{NUMBER}[kMG]?))\s?(?P<per>[A-Za-z]{{1,20}}/[A-Za-z]{{1,20}})|(?(left)(?:,[^\]]{{0,200}})?\]|(?!)))"
)
_GLYPHS = "━╸╺─■□▓▒░█▉▊▋▌▍▎▏⣿"
# Bars that have their counter behind them:
# Textualize/rich, progress.py, as Lightning arranges it: "Epoch 0/1 ━━━━━━ 45/100 0:00:12 • 0:00:15 3.61it/s"
# ultralytics/ultralytics, utils/tqdm.py: "1/3 3.5G 0.05 640: 12% ━╸────────── 1/8 4.0it/s 0.3s<1.8s"
# fastai/fastprogress: "|████----| 45.00% [45/100 00:12<00:15]"; click, alive-progress and people's own.
_DRAWN = re.compile(
    rf"^(?P<title>.{{0,300}}?)\s{{0,9}}(?:\d{{1,3}}%\s{{1,3}})?"
    rf"(?:[{_GLYPHS}][{_GLYPHS} ]{{2,400}}|[|\[][{_GLYPHS}#=>. -]{{5,400}}[|\]])\s{{0,3}}"
    r"(?:[^\w\s]{1,4}\s)?(?:[\d.]{1,6}%\s)?\[?"
    r"(?P<step>[\d.]{1,15}[kMGT]?)/(?P<total>[\d.]{1,15}[kMGT]?)(?P<counted>)(?![\w/])"
    r"(?:.{0,40}?\s(?P<rate>[\d.]{1,12}[kMG]?)\s?(?P<per>[A-Za-z]{1,20}/[A-Za-z]{1,20}))?"
)
# Matches any of these, and similar bars.
_LIKE_PROGRESS = re.compile(
    rf"\d%\s?[|\[{_GLYPHS}]|[{_GLYPHS}]{{3}}|\[\s?\d+:\d\d(?::\d\d)?\s?<|\d\s?it\s?\[|[=>.]{{5}}\]|"
    r"\d/(?:\d+|Unknown)\s.{0,120}\d(?:us|µs|ms|s)/step"
)


def looks_like_progress(line: str) -> bool:
    """Whether a line looks like a progress bar, whose time or rate may be an average, or of evaluation."""
    return _LIKE_PROGRESS.search(line) is not None


# Titles of bars of other work: Lightning's validation; Hugging Face's datasets, hub and transformers; pip; the first
# words of bars of Hugging Face's trl and of ultralytics; and bars that count epochs.
_OTHER_WORK = re.compile(
    r"\b(?:validat\w*|valid|val|sanity|eval\w*|test(?:ing)?|predict\w*|download\w*|fetching|loading|generating|map|filter|"
    r"tokeniz\w*|running|resolving|saving|upload\w*|writing|creating|materializing)\b|"
    r"^\W{0,9}(?:\w{1,9}:\s)?(?:scanning|caching|grouping|adding|applying|extracting|packing|truncating|converting|"
    r"formatting|preprocess\w*|class\s+images\s+instances)\b|"
    r"\bepochs\b|^\W{0,9}epoch\W{0,3}$",
    re.IGNORECASE,
)
_LEAST_OF_OTHERS = 10  # lines of bars that may be of training, too
_ADVANCES_IN_A_ROW = 3
_MOST_TITLES = 50
_STEPS = ("it", "step", "steps", "batch", "batches", "iter")


class Bars:
    """Reads progress bars.

    The total of the first bar is that of training. Bars with another total, such as those of evaluation, are left out,
    and so are bars with the name of other work. Where the first bar may count epochs, around bars of steps, or show
    work before training, both are refused.
    """

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._total: str | None = None
        self._first_line = ""
        self._step, self._in_a_row = 0.0, 0
        self._advances = self._is_finished = False
        self._steps = self._of_others = 0
        self._other = self._title = self._drawn = ""
        self._steps_of: dict[str, str] = {}  # by title

    def read(self, line: str) -> Reading | LeftOut | None:
        """The reading of a bar; None for any other line.

        Raises:
            Unreadable: two bars advance, and neither is known to be of training.
        """
        bar = _bar_in(line)
        if bar is None:
            return None
        # Without a percentage the title is the text before the bar, maybe with a path.
        if _OTHER_WORK.search(bar["title"] or line[: bar.start()].rpartition("/")[2]):
            return LeftOut()
        numerator, _, denominator = (bar["per"] or f"{bar['counted'] or 'it'}/s").partition("/")
        counted = numerator if denominator == "s" else denominator if numerator == "s" else ""
        is_unit = counted.rstrip("s") == self._unit.rstrip("s")
        if (not is_unit and counted not in _STEPS) or self._is_at_rest(bar) or not self._is_of_training(bar, line):
            return LeftOut()
        if re.fullmatch(r"\d+", bar["step"]):
            return Reading(Kind.EXAMPLES if is_unit else Kind.STEP, float(bar["step"]), loss=loss_in(line))
        # "1.5k/10k [00:12<00:15, 1.54kit/s]": the counter is too coarse, so take the rate.
        rate = number_in(bar["rate"] or "")
        if not rate:
            return LeftOut()
        per_second = rate if denominator == "s" else 1 / rate
        return Reading(Kind.RATE if is_unit else Kind.STEP_RATE, per_second, loss=loss_in(line))

    def read_unfinished(self, line: str) -> Reading | None:
        """The reading of a bar that has no end yet, if its counter is enough: the next bar is drawn over it."""
        bar = _bar_in(line) if len(line) <= _MOST_UNFINISHED else None
        if bar is None or bar.end() == len(line):  # its last number may go on
            return None
        reading = self.read(line)
        if not isinstance(reading, Reading) or not reading.kind.is_counter:
            return None
        return Reading(reading.kind, reading.value)

    def _is_at_rest(self, bar: re.Match[str]) -> bool:
        """Whether it is drawn together with other bars, and has not advanced: rich goes on drawing it."""
        title, step = bar["title"] or "", bar["step"]
        is_another, self._drawn = title != self._drawn, title
        if len(self._steps_of) >= _MOST_TITLES:  # a title may have a loss in it
            self._steps_of.clear()
        before, self._steps_of[title] = self._steps_of.get(title), step
        return is_another and step == before

    def _is_of_training(self, bar: re.Match[str], line: str) -> bool:
        total = bar["total"] or ""
        if self._total is None:
            if total in ("", "?") and bar["step"] == "0":
                return False  # Lightning draws "Training: 0it" before it knows the total
            self._total, self._title, self._first_line = total, _without_digits(bar), line
        if total == self._total:
            self._note_advance(bar)
            return True
        self._in_a_row = 0
        if self._title and _without_digits(bar) == self._title:
            return False  # an epoch of another length, or its evaluation
        self._of_others += bar[0] != self._other
        self._other = bar[0]
        is_larger = self._of_others >= _LEAST_OF_OTHERS and self._of_others > self._steps
        if is_larger and (self._is_finished or not self._advances):
            raise Unreadable(
                f"two progress bars advance: {shown(self._first_line)!r} and {shown(line)!r}",
                "give reads=Reads(pattern=...) that finds that of training, as in "
                r"pattern=r'Iteration.* (?P<step>\d+)/'",
            )
        return False

    def _note_advance(self, bar: re.Match[str]) -> None:
        """Note an advance: outer bars don't advance three times in a row, and evaluation comes before training ends."""
        step = number_in(bar["step"]) or 0.0
        if step != self._step:
            self._step = step
            self._steps += 1
            self._in_a_row += 1
            self._advances |= self._in_a_row >= _ADVANCES_IN_A_ROW
        self._is_finished = bar["step"] == bar["total"]


def _without_digits(bar: re.Match[str]) -> str:
    return re.sub(r"\d+", "", bar["title"] or "").strip()


def _bar_in(line: str) -> re.Match[str] | None:
    if "/" not in line and "it" not in line:
        return None
    return (_TQDM.search(line) if "[" in line else None) or _DRAWN.search(line)
