"""Reads a program's lines as its `Reads` states, and refuses a number that the words beside it contradict."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from pytest_tfperf.core.command import STEPS, Command, Holds, Of, RateIs, Reads
from pytest_tfperf.programs.formats import FORMATS, TqdmLines
from pytest_tfperf.programs.own_formats import Number, OwnLines, read_by
from pytest_tfperf.programs.reading import Kind, Reading, Unread, Unreadable, shown, step_in

SHOWN_LINES = 5
_MOST_UNREAD_SHARE = 0.1
_LEAST_UNREAD = 3

_Read = Callable[[str], Reading | Unread | None]


class Reader:
    """Reads a program's lines; rates of one device become those of all `devices`."""

    def __init__(self, command: Command, devices: int = 1) -> None:
        assert command.reads is not None, "a command without reads is measured by its steps"
        self._command, self._reads, self._devices = command, command.reads, devices
        self._own = OwnLines(self._reads.field, self._reads.pattern)
        self._way = self._way_to_read()
        self._read = self._unread = 0  # numbers of lines
        self.first_lines: list[str] = []  # the beginnings of those that are not empty
        self.lines = 0
        self.unread: list[tuple[str, str]] = []  # the first lines with a number that could not be read, and why
        self.ambiguous = ""  # a line with a comma that may be a decimal one

    def _way_to_read(self) -> _Read:
        if self._reads.parse is not None:
            return partial(read_by, self._reads.parse)
        if self._reads.format == "tqdm":
            return TqdmLines().read
        for known in FORMATS:
            if known.name == self._reads.format:
                return partial(known.read, unit=self._command.counted, devices=self._devices)
        return self._stated

    def read(self, line: str) -> Reading | None:
        """The reading of a line; None for a line without one.

        Raises:
            Unreadable: the line contradicts what is stated, or too many lines can't be read.
        """
        self.lines += 1
        if not line.strip():
            return None
        if len(self.first_lines) < SHOWN_LINES:
            self.first_lines.append(shown(line))
        reading = self._way(line)
        if isinstance(reading, Unread):
            self.skip(line, reading.why)
            return None
        if reading is None:
            return None
        self._read += 1
        return self._as_stated(replace(reading, line=line))

    def skip(self, line: str, why: str) -> None:
        """Note a line with a number that can't be read.

        Raises:
            Unreadable: there are too many of them.
        """
        self._unread += 1
        if len(self.unread) < SHOWN_LINES:
            self.unread.append((shown(line), why))
        if self._read and self._unread >= _LEAST_UNREAD and self._unread > _MOST_UNREAD_SHARE * self._read:
            raise Unreadable(
                f"{self._unread} lines with a rate can't be read, beside {self._read} that can: {why}",
                "give reads=Reads(pattern=...) or parse= that reads all of them",
                [text for text, _ in self.unread],
            )

    def note(self) -> str:
        """A note for the measurement on lines that were not read; "" for none."""
        if not self._unread:
            return ""
        line, why = self.unread[0]
        counted = "1 line with a rate was" if self._unread == 1 else f"{self._unread} lines with a rate were"
        return f"{counted} not read: {why}: {line!r}"

    def nothing_read(self) -> str:
        """Why no line has a reading, with what was expected."""
        reads = self._reads
        if self.unread:
            return f"no line has a rate that is plain: {self.unread[0][1]}"
        if self._own.fields:
            known = ", ".join(self._own.fields)
            return f"no JSON line has a number in the field {reads.field!r}; they have {known}"
        if reads.field:
            return f"no line is a JSON object, in which the field {reads.field!r} would be read"
        if reads.pattern:
            return f"no line matches the pattern {reads.pattern!r}"
        if reads.parse is not None:
            return "parse= returned None for each line"
        return f"no line is one of the format {reads.format!r}"

    def next_step(self) -> str:
        """The arguments that would let the lines be read."""
        bars = "" if self._command.terminal else "; terminal=True if it draws a bar in a terminal only"
        return f"correct reads=, or leave it out to measure the program by its steps{bars}"

    def _stated(self, line: str) -> Reading | Unread | None:
        """The number of the pattern or the field, as the group's name or `holds` says; None for another line."""
        if (found := self._own.find(line)) is None:
            return None
        group, value = self._reads.group, found.number
        if value is None:
            return (
                None if self._reads.field else Unread(f"the group {group} has {found.text!r:.40}, which is no number")
            )
        if _TRAINERS_END.search(line):
            raise Unreadable(
                f"{shown(line)!r} is the last line of Hugging Face's Trainer: after a resume it counts skipped steps",
                "leave reads out, to measure the Trainer by its steps, or read its bar by format='tqdm'",
            )
        _require_unit(self._command, self._reads, self._devices, found, line)
        if isinstance(found.text, str) and _AMBIGUOUS.fullmatch(found.text.strip()):
            self.ambiguous = self.ambiguous or shown(line)
        match group:
            case Holds.RATE:
                return Reading(
                    Kind.RATE, value * (self._devices if self._reads.of == Of.DEVICE else 1), loss=found.loss
                )
            case Holds.STEP:
                return Reading(Kind.STEP, value, loss=found.loss)
        return Reading(Kind.SECONDS, value / (1000 if group == Holds.MILLISECONDS else 1), loss=found.loss)

    def _as_stated(self, reading: Reading) -> Reading:
        """The reading, for `rate_is="average"` as a mean since the first step; lines without a counter count steps."""
        if self._reads.rate_is == RateIs.AVERAGE:
            step = step_in(reading.line) or self._read
            if reading.kind is Kind.RATE:
                return replace(reading, kind=Kind.MEAN_RATE, step=step)
            if reading.kind is Kind.SECONDS:
                return replace(reading, kind=Kind.MEAN_SECONDS, step=step)
        return reading


# huggingface/transformers#40560: after a resume at step 500 it says how fast 520 steps in the time of 20 would be.
_TRAINERS_END: Final = re.compile(r"'train_runtime': .*'train_s\w+_per_second': .*'train_loss': ")
_AMBIGUOUS: Final = re.compile(r"[1-9]\d{0,2},\d{3}")  # 12 345, or 12.345 with a decimal comma

_SECONDS: Final = dict.fromkeys(("s", "sec", "secs", "second", "seconds"), Holds.SECONDS)
_MILLISECONDS: Final = dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), Holds.MILLISECONDS)
_TIMES: Final[dict[str, str]] = {
    **_SECONDS,
    **_MILLISECONDS,
    **dict.fromkeys(("us", "\u00b5s", "\u03bcs", "ns", "m", "min", "mins", "minutes", "h", "hours"), ""),
}
_TIME: Final = rf"(?P<time>{'|'.join(sorted(_TIMES, key=len, reverse=True))})"
_TIME_BEHIND: Final = re.compile(rf"\s?{_TIME}(?!\w)")
_TIME_BEFORE: Final = re.compile(rf"(?<![A-Za-z]){_TIME}(?:/\w{{1,12}})?\W{{0,4}}$")
_OF_A_CLOCK: Final = re.compile(r"\d:$")  # "0:01:31.5"
_OF_A_DURATION: Final = re.compile(r"\s?[dhm]\s?\d|:\d")  # "1m3.5s"
_STEP_WORDS: Final = ("it", "iter", "iteration", "step", "batch", "batche", "update")
# What the word before "/s" counts; words of one kind may stand for one another.
_COUNTED: Final = {
    **dict.fromkeys(_STEP_WORDS, STEPS),
    **dict.fromkeys(("image", "img", "sample", "example", "sequence", "seq", "record", "row", "item"), "examples"),
    **dict.fromkeys(("token", "tok"), "tokens"),
    "word": "words",
    **dict.fromkeys(("bit", "byte", "b"), "bytes"),
}
_PER_TIME: Final = (
    r"(?P<word>[A-Za-z]{1,20}?)s?\s?(?:/|[ _]?per[ _])\s?(?P<per>s|sec|seconds?|ms|min|minutes?|h|hours?|day)"
)
_RATE_BEHIND: Final = re.compile(rf"\s?{_PER_TIME}(?![A-Za-z])", re.IGNORECASE)
_RATE_BEFORE: Final = re.compile(rf"(?<![A-Za-z]){_PER_TIME}\W{{0,4}}$", re.IGNORECASE)
_PER_OTHER: Final = re.compile(r"per_(?:step|iter\w*|batch|epoch|sample|image|example|token)s?$", re.IGNORECASE)
_ONE_DEVICE: Final = re.compile(
    r"(?:/|per[\s_-]?)(?:gpu|device|chip|core|tpu|card|accelerator|rank|worker|replica)(?![a-z])", re.IGNORECASE
)
_AVERAGE: Final = re.compile(r"(?:\b|_)(?:avg|average|mean|overall|cumulative)(?:\b|_)", re.IGNORECASE)
_OF_ANOTHER: Final = re.compile(r"[\d,;|]")  # what stands beyond belongs to another number
_MOST_WORDS: Final = 40  # characters


def _require_unit(command: Command, reads: Reads, devices: int, found: Number, line: str) -> None:
    """Refuse a number whose own words contradict what is stated of it."""
    group = reads.group
    before = _OF_ANOTHER.split(found.before[-_MOST_WORDS:])[-1]
    behind = _OF_ANOTHER.split(found.behind[:_MOST_WORDS])[0]
    what = f"the field {reads.field!r}" if reads.field else f"the group {group}"
    has = f"{what} has {found.text!s:.40} of {shown(line)!r}"
    time = _TIME_BEHIND.match(behind) or (group != Holds.RATE and _TIME_BEFORE.search(before))
    is_time = group not in (Holds.RATE, Holds.STEP)
    if is_time and (_OF_A_CLOCK.search(found.before[-2:]) or _OF_A_DURATION.match(found.behind)):
        raise Unreadable(
            f"{has}, a part of a time of several units",
            "print seconds alone, or give parse=, a function that returns the rate",
        )
    if group != Holds.STEP and time and _TIMES[time["time"]] != group:
        raise Unreadable(
            f"{has}, and {time['time']!r} beside it is not what {group!r} holds",
            "let the program always print one unit, and name it; or count its steps by a group step, or give parse=",
        )
    if group != Holds.RATE:
        return
    _require_counted(command.counted, has, _RATE_BEHIND.match(behind) or _RATE_BEFORE.search(before))
    if other := _PER_OTHER.search(before):
        raise Unreadable(
            f"{has}, and {other[0]!r} names no rate per second",
            "read the time of a step, as by field='time', holds='seconds', and give examples_per_step=",
        )
    if devices > 1 and reads.of is None and (one := _ONE_DEVICE.search(f"{before} {behind}")):
        raise Unreadable(
            f"{has}, where {one[0]!r} names one device, and it runs on {devices}",
            "give of='device' to multiply it, or of='all' if it is the rate of all",
        )
    if reads.rate_is is None and (average := _AVERAGE.search(before)):
        raise Unreadable(
            f"{has}, and {average[0].strip('_')!r} names an average",
            "give rate_is='average' if it is one since the first step, and 'recent' if not",
        )


def _require_counted(unit: str, has: str, mention: re.Match[str] | None) -> None:
    """Refuse a rate beside which another unit stands, as in "12 ktokens/s" or "12 it/s"."""
    if mention is None:
        return
    word, own = mention["word"].lower(), _COUNTED.get(unit.lower().removesuffix("s"))
    counted = _COUNTED.get(word)
    if counted is None and (counted := _COUNTED.get(word[1:])) is not None and word[0] in "kmg":
        raise Unreadable(
            f"{has}, and the {mention['word'][0]!r} behind it is no part of the group",
            rf"let the group take it, as in (?P<rate>[\d.]+ ?{mention['word'][0]})",
        )
    if counted is None:
        return
    if not mention["per"].lower().startswith("s"):
        raise Unreadable(f"{has}, which is no rate per second", "print a rate per second, or give parse=")
    if own is not None and own != counted:
        step = "give unit='steps/s', or read its counter by a group step" if counted == STEPS else "correct the unit"
        raise Unreadable(f"{has}, and {mention[0].strip()!r} beside it is not in {unit}/s", step)
