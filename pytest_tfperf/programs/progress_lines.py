"""Reads lines that show progress and are drawn over one another: those of Keras, and the bars of tqdm."""

from __future__ import annotations

import re

from pytest_tfperf.programs.reading import Kind, Reading, Unreadable, loss_in, shown

# "120/500 ━━━━ 12s 31ms/step - loss: 0.3", and "500/500 - 15s - 31ms/step" of verbose=2. Keras 2 has no time of a step
# before the end of an epoch: "120/500 [=====>....] - ETA: 12s".
_KERAS = re.compile(
    r"(?:^|\s)(?P<step>\d{1,12})/(?P<total>\d{1,12}|Unknown)\s"
    r"(?:(?P<between>(?:[^/]|s/epoch){0,120}?)\d{1,9}(?:us|µs|ms|s)/step|\[[=>. ]{3,60}\] - ETA: )",
    re.ASCII,
)
_KERAS_EPOCH = re.compile(r"Epoch \d{1,9}/\d{1,9}\s{0,9}", re.ASCII)
_MOST_OF_A_LINE = 640  # progress lines are shorter


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

    def read(self, line: str) -> Reading | None:
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
            return None
        is_alone = _is_alone(bar) or self._epoch_begins
        if self._counts_on is None:
            self._counts_on = is_alone and bar["step"] == bar["total"]
            self._before_fit = "" if self._epoch_begins else line
        if self._counts_on and is_alone:
            self._finished += self._step
        self._epoch_begins = False
        self._step = int(bar["step"])
        # A group of `steps_per_execution` may be longer than the rest of the epoch: "60/50", and then "50/50".
        if bar["total"].isdigit() and self._step > int(bar["total"]):
            return None
        return Reading(Kind.STEP, self._finished + self._step, loss=loss_in(line))

    def read_unfinished(self, line: str) -> Reading | None:
        """The reading of a line that has no end yet: Keras ends a progress line with the next one."""
        bar = _keras_in(line) if len(line) <= _MOST_OF_A_LINE else None
        return None if bar is None or _is_alone(bar) else self.read(line)

    def _is_without_epoch(self, bar: re.Match[str]) -> bool:
        """Whether it belongs to a bar that no epoch's line announced."""
        step = int(bar["step"])
        begins_anew = step < self._step or (_is_alone(bar) and step == self._step)
        self._is_after_epoch = not self._epoch_begins and (self._is_after_epoch or begins_anew)
        return self._names_epochs and self._is_after_epoch


def _keras_in(line: str) -> re.Match[str] | None:
    return _KERAS.search(line) if len(line) <= _MOST_OF_A_LINE and ("/step" in line or "ETA: " in line) else None


def _is_alone(bar: re.Match[str]) -> bool:
    """Whether a line has the form of verbose=2, which prints a single line for each epoch."""
    return (bar["between"] or "").startswith("- ")


# tqdm/tqdm, std.py, format_meter: "Epoch 0:  45%|████▌     | 45/100 [00:12<00:15,  3.61it/s, loss=0.5]".
_TQDM = re.compile(
    r"^(?P<title>[^|]{0,200}?)\s{0,9}\d{1,3}%\|[^|]{0,400}\|\s{0,9}(?P<step>\d{1,12})/(?P<total>\d{1,12})\s"
    r"\[[\d:]{4,12}<[^,\]]{1,20},\s{0,9}(?:\?|[\d.]{1,12})(?:it/s|s/it)"
)


class TqdmLines:
    """Reads the bars of tqdm, of one title, apart from its digits, and one total.

    A bar of another title or total, such as that of evaluation or of a download, is refused.
    """

    def __init__(self) -> None:
        self._first: tuple[str, str] | None = None
        self._first_line = ""

    def read(self, line: str) -> Reading | None:
        """The reading of a bar; None for any other line.

        Raises:
            Unreadable: a second bar advances.
        """
        bar = _TQDM.search(line) if len(line) <= _MOST_OF_A_LINE else None
        if bar is None or bar["step"] == "0":
            return None
        key = (re.sub(r"[\d.]+", "", bar["title"]).strip(), bar["total"])
        if self._first is None:
            self._first, self._first_line = key, line
        if key != self._first:
            title = re.escape(self._first[0].strip(": "))
            raise Unreadable(
                f"two progress bars advance: {shown(self._first_line)!r} and {shown(line)!r}",
                "give a pattern that finds that of training, as "
                rf"reads=Reads(pattern=r'^{title}.*\| *(?P<step>\d+)/'), or measure it by its steps, without reads",
            )
        return Reading(Kind.STEP, float(bar["step"]), loss=loss_in(line))
