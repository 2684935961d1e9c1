"""Reads a number with its unit, '12.3 images/s' or 'images/s: 12.3', where a line can be read in one way only."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_tfperf.programs.reading import BEGIN, END, NUMBER, Kind, Reading, Unread, loss_in, to_float

_FLAGS = re.ASCII | re.IGNORECASE
_PER_DEVICE = r"\s?(?:/|per\s)\s?(?:gpu|device|chip|rank|worker|replica|process|core|tpu|accelerator)s?\b"
_NUMBER_BEFORE = re.compile(rf"{BEGIN}(?P<number>{NUMBER})\s?(?P<factor>[kKMG]?)[\s\"']{{0,3}}$", _FLAGS)
_NUMBER_AFTER = re.compile(
    rf"[\"')\]]{{0,2}}\s{{0,9}}(?P<sign>[:=]>?)?\s{{0,9}}[\"'(\[]?(?P<number>{NUMBER})(?P<factor>[kKMG]?){END}", _FLAGS
)
_SIGN_AFTER = re.compile(r"[\"')\]]{0,2}\s{0,9}[:=](?!=)")
# The error of a value, as in "632.9 +/- 3.2 images/s": the value stands before it.
_VALUE_BEFORE_ERROR = re.compile(
    rf"{BEGIN}(?P<number>{NUMBER})\s?(?P<factor>[kKMG]?)\s{{0,3}}(?:\u00b1|\+/-|\+-)\s{{0,3}}$", re.IGNORECASE
)
_RANGE_BEFORE = re.compile(r"\d\s{0,3}(?:-|\u2013|\u2026|\.\.+|to|~)\s{0,3}$", re.ASCII)
# A number after one of these words counts something else: "step 120 632.9 images/s".
_COUNTER_BEFORE = re.compile(
    r"(?:\b|_)(?:steps?|it|iters?|iterations?|epochs?|batch|batches|updates?|rank|gpu|worker|device|node|of)\W{0,3}$",
    _FLAGS,
)
_OTHER_MEASURE = re.compile(r"(?:\b|_)(?:avg|average|mean|overall|max|peak|best|min)\W{0,3}$", _FLAGS)
_WORD_AFTER = re.compile(r"\s{0,2}(?:[a-z%\u00b5]|/)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Found:
    """A value beside one mention of the unit."""

    value: float
    per_device: bool
    is_other_measure: bool  # an average or a peak, named so


class UnitLines:
    """Reads lines that name the unit.

    Args:
        unit: what is counted, "images".
        devices: how many devices print rates "per GPU" together.
    """

    def __init__(self, unit: str, devices: int = 1) -> None:
        self._word = (unit.removesuffix("s")).lower()
        plural = f"{re.escape(self._word)}s?"
        self._mention = re.compile(
            rf"[(\[]?(?<![a-z_/.-])(?P<factor>(?-i:[kKMG])?){plural}\s?(?:/|per\s)\s?s(?:ec(?:ond)?s?)?"
            rf"(?P<per_device>{_PER_DEVICE})?(?![\w/]|\sper\b)",
            _FLAGS,
        )
        self._devices = devices

    def read(self, line: str) -> Reading | Unread | None:
        """The line's rate; None where it does not name the unit beside a number."""
        if self._word not in line.lower():
            return None
        found = [one for mention in self._mention.finditer(line) if (one := _beside(line, mention)) is not None]
        if not found:
            return None
        if unread := [one for one in found if isinstance(one, Unread)]:
            return unread[0]
        values = [one for one in found if isinstance(one, _Found)]
        # "12 images/s (3 images/s/gpu, average 11.9 images/s)": the first says what is asked for.
        values = [one for one in values if not one.per_device] or values
        values = [one for one in values if not one.is_other_measure] or values
        rates = {one.value * (self._devices if one.per_device else 1) for one in values}
        if len(rates) > 1:
            return Unread(f"it has {len(rates)} rates, {' and '.join(f'{rate:g}' for rate in sorted(rates))}")
        return Reading(Kind.RATE, rates.pop(), loss=loss_in(line))


def _beside(line: str, mention: re.Match[str]) -> _Found | Unread | None:
    """The number that belongs to a mention of the unit; None for words around it that no number is beside."""
    head, tail = line[: mention.start()], line[mention.end() :]
    before, after = _NUMBER_BEFORE.search(head), _NUMBER_AFTER.match(tail)
    factor = mention["factor"]
    label = head
    if _SIGN_AFTER.match(tail):  # "loss: 0.5 images/sec: 632.9"
        if after is None:
            return Unread("no number follows the unit's sign") if before or re.search(r"\d", tail) else None
        chosen = after
    elif before is not None and after is not None and not _WORD_AFTER.match(tail[after.end() :]):
        if not _COUNTER_BEFORE.search(head[: before.start()]):
            return Unread(f"both {before['number']} and {after['number']} stand beside the unit")
        chosen = after  # "step 120 images/sec 1234.5"
    elif before is not None:
        chosen, label = before, head[: before.start()]
        if _COUNTER_BEFORE.search(label):
            return Unread(f"{before['number']} counts something else")
        if value := _VALUE_BEFORE_ERROR.search(label):
            chosen, label = value, label[: value.start()]
        elif _RANGE_BEFORE.search(label):
            return Unread("it has a range of rates")
    elif after is not None:
        chosen = after
    else:
        return Unread("its number is not plain") if re.search(r"\d\W{0,3}$", head) else None
    if _is_group_of_thousands(chosen, label if chosen is not after else "", tail if chosen is after else ""):
        return Unread("a space between digits may separate thousands or two numbers")
    if chosen["factor"] == "m":
        return Unread("'m' may be a thousandth or a million")
    rate = to_float(chosen["number"], chosen["factor"] or factor)
    return _Found(rate, mention["per_device"] is not None, _OTHER_MEASURE.search(label) is not None)


def _is_group_of_thousands(chosen: re.Match[str], label: str, tail: str) -> bool:
    """Whether the number may be a part of one that is written with spaces, as 1 234.5."""
    if tail:
        return bool(re.match(r"\d{1,3}$", chosen["number"]) and re.match(r"[ ]\d{3}(?!\d)", tail[chosen.end() :]))
    if not re.match(r"\d{3}(?!\d)", chosen["number"]):
        return False
    head = re.search(r"(?<!\S)\d{1,3}(?: \d{3})* $", label)
    if head is None or head[0].startswith("0"):
        return False
    return not _COUNTER_BEFORE.search(label[: head.start()])
