"""Progress bars as counters: Keras', tqdm's (Hugging Face Trainer, Lightning) and rich's (Lightning in a terminal).

The rate that a bar shows is smoothed and rounded; its counter and the time at which a line arrives say more.
"""

from __future__ import annotations

import re

from pytest_tfperf.programs.reading import NUMBER, Kind, LeftOut, Reading, loss_in, number_in

# "120/500 ━━━━ 12s 31ms/step - loss: 0.3", and "500/500 - 15s - 31ms/step" of verbose=2.
_KERAS = re.compile(
    r"(?:^|\s)(?P<step>\d{1,12})/(?P<total>\d{1,12}|Unknown)\s(?P<between>[^/]{0,120}?)\d{1,9}(?:us|µs|ms|s)/step",
    re.ASCII,
)
_KERAS_EPOCH = re.compile(r"Epoch \d{1,9}/\d{1,9}\s{0,9}", re.ASCII)
_MOST_UNFINISHED = 640  # a line of Keras is shorter


class KerasLines:
    """Reads Keras' progress lines.

    The total of the first line is that of `fit`. Lines with another one, such as those of `evaluate` and `predict`, are
    left out. A data set of unknown length has a total from the second epoch on.

    Where a line is all that an epoch prints, its steps count on from epoch to epoch: with verbose=2, and where an epoch
    has one step.
    """

    def __init__(self) -> None:
        self._total = ""
        self._epoch_begins = False
        self._counts_on: bool | None = None  # known from the first line on
        self._finished, self._step = 0, 0

    def read(self, line: str) -> Reading | None:
        """What a line says; None for one that is no progress of `fit`."""
        if _KERAS_EPOCH.fullmatch(line.lstrip()):
            self._epoch_begins = True
            return None
        found = _KERAS.search(line) if "/step" in line else None
        if found is None or not self._is_of_fit(found["total"]):
            return None
        step = int(found["step"])
        if self._counts_on is None:
            self._counts_on = self._epoch_begins and found["step"] == found["total"]
        if _is_whole_epoch(found) or (self._counts_on and self._epoch_begins):
            self._finished += self._step
        elif not self._counts_on:
            self._finished = 0
        self._step, self._epoch_begins = step, False
        return Reading(Kind.STEP, self._finished + step, loss=loss_in(line))

    def read_unfinished(self, line: str) -> Reading | None:
        """As `read` for a line that has no end yet: Keras ends its progress line with the next one."""
        found = _KERAS.search(line) if len(line) <= _MOST_UNFINISHED else None
        return None if found is None or _is_whole_epoch(found) else self.read(line)

    def _is_of_fit(self, total: str) -> bool:
        if not self._total or (self._total == "Unknown" and self._epoch_begins):
            self._total = total
        return total == self._total


def _is_whole_epoch(found: re.Match[str]) -> bool:
    """Whether a line of Keras is the only one of its epoch, as verbose=2 prints it."""
    return found["between"].startswith("- ")


# tqdm/tqdm, std.py, format_meter: "Epoch 0:  45%|████▌     | 45/100 [00:12<00:15,  3.61it/s, loss=0.5]", and without a
# total "45it [00:12,  3.61it/s]".
_TQDM = re.compile(
    r"(?:(?P<title>[^|]{0,200}?)\s{0,9}\d{1,3}%\|[^|]{0,400}\|\s{0,9})?(?P<step>[\d.]{1,15}[kMGT]?)"
    r"(?:/(?P<total>[\d.]{1,15}[kMGT]?))?\s?(?P<counted>[A-Za-z]{0,20})\s"
    rf"\[[\d:]{{4,12}}(?:<[^,\]]{{1,20}})?,\s{{0,9}}(?:\?|(?P<rate>{NUMBER}[kMG]?))\s?(?P<per>[A-Za-z]{{1,20}}/[A-Za-z]{{1,20}})"
)
# Textualize/rich, progress.py, as Lightning arranges it: "Epoch 0/1 ━━━━━━ 45/100 0:00:12 • 0:00:15 3.61it/s".
_RICH = re.compile(
    r"^(?P<title>.{0,80}?)\s[━╸╺ ]{3,400}\s?(?P<step>\d{1,12})/(?P<total>\d{1,12})\s+\d+:\d\d:\d\d • [\d:-]{4,9}\s+"
    r"(?P<rate>[\d.]{1,12})(?P<per>it/s)"
)
# What bars of other work are called: Lightning's validation; Hugging Face's datasets, hub and transformers; pip.
_OTHER_WORK = re.compile(
    r"\b(?:validat\w*|valid|val|sanity|eval\w*|test(?:ing)?|predict\w*|download\w*|fetching|loading|generating|map|filter|"
    r"tokeniz\w*|running|resolving|saving|upload\w*|writing|creating|materializing)\b",
    re.IGNORECASE,
)
_STEPS = ("it", "step", "steps", "batch", "batches", "iter")


class Bars:
    """Reads progress bars of tqdm and rich.

    The total of the first bar is that of training. Bars with another one, such as those of evaluation, are left out.
    So are those with the name of other work.

    Args:
        unit: what is counted.
    """

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._total: str | None = None

    def read(self, line: str) -> Reading | LeftOut | None:
        """What a line says; None for one that is no bar."""
        found = _TQDM.search(line) if "[" in line and "/" in line else _RICH.search(line) if "•" in line else None
        if found is None:
            return None
        if _OTHER_WORK.search(found["title"] or ""):
            return LeftOut()
        numerator, _, denominator = found["per"].partition("/")
        counted = numerator if denominator == "s" else denominator if numerator == "s" else ""
        is_unit = counted.rstrip("s") == self._unit.rstrip("s")
        if (not is_unit and counted not in _STEPS) or not self._is_of_training(found["total"] or ""):
            return LeftOut()
        if re.fullmatch(r"\d+", found["step"]):
            return Reading(Kind.EXAMPLES if is_unit else Kind.STEP, float(found["step"]), loss=loss_in(line))
        # "1.5k/10k [00:12<00:15, 1.54kit/s]": the counter is too coarse, so the rate must do.
        rate = number_in(found["rate"] or "")
        if not rate:
            return LeftOut()
        per_second = rate if denominator == "s" else 1 / rate
        return Reading(Kind.RATE if is_unit else Kind.STEP_RATE, per_second, loss=loss_in(line))

    def _is_of_training(self, total: str) -> bool:
        if self._total is None:
            self._total = total
        return total == self._total
