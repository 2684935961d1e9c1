"""Reads a number with its unit, '12.3 images/s' or 'images/s: 12.3', where a line can be read in one way only.

'31 ms/step' and '3.6 it/s', as Keras, clu and many scripts print them, are read in the same way.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from pytest_tfperf.programs.reading import BEGIN, END, NUMBER, Kind, LeftOut, Reading, Unread, loss_in, to_float

_FLAGS = re.ASCII | re.IGNORECASE
_PER_DEVICE = r"[\s_]?(?:/|per[\s_])\s?(?:gpu|cpu|device|chip|rank|worker|replica|process|core|tpu|accelerator)s?\b"
_NUMBER_BEFORE = re.compile(rf"{BEGIN}(?P<number>{NUMBER})\s?(?P<factor>[kKMG]?)[\s\"']{{0,3}}$", _FLAGS)
_NUMBER_AFTER = re.compile(
    rf"[\"')\]]{{0,2}}\s{{0,9}}(?P<sign>[:=]>?)?\s{{0,9}}[\"'(\[]?(?P<number>{NUMBER})(?P<factor>[kKMG]?){END}", _FLAGS
)
# As in "images/s: [83.1, 50.2]", "images/s: 83 / 50" and "images/s: 80..130"; NumPy writes "[83.1 50.2]".
_MORE_IN_LIST = re.compile(rf"\s{{1,3}}{NUMBER}[\s\]]", _FLAGS)
_MORE_AFTER = re.compile(rf"\s{{0,3}}(?:[,;/]|\.\.+)\s{{0,3}}{NUMBER}\s{{0,3}}(?:[,;/\])]|$)", _FLAGS)
_SIGN_AFTER = re.compile(r"[\"')\]]{0,2}\s{0,9}[:=](?!=)")
# The error of a value, as in "632.9 +/- 3.2 images/s": the value stands before it.
_VALUE_BEFORE_ERROR = re.compile(
    rf"{BEGIN}(?P<number>{NUMBER})\s?(?P<factor>[kKMG]?)\s{{0,3}}(?:\u00b1|\+/-|\+-)\s{{0,3}}$", re.IGNORECASE
)
# As in "12345/11000 tokens/s", "8 x 2.5 images/s" and "2.5 x 10^3 images/s".
_EXPRESSION_BEFORE = re.compile(r"(?:\d/|(?<![\w.])\d[\d.]{0,30}\s?[x*\u00d7]\s?|\^)$", re.ASCII | re.IGNORECASE)
_MINUTES_BEFORE = re.compile(r"(?:\d\s?(?:h|m|min)\s?|\d:)$", _FLAGS)
_ERROR_SIGN_BEFORE = re.compile(r"(?:\u00b1|\+/-|\+-)\s{0,3}$")
_RANGE_BEFORE = re.compile(r"\d\s{0,3}(?:-|\u2013|\u2026|\.\.+|to|~)\s{0,3}$", re.ASCII)
# A number after one of these words counts something else: "step 120 632.9 images/s".
_COUNTER_BEFORE = re.compile(
    r"(?:\b|_)(?:steps?|it|iters?|iterations?|epochs?|batch|batches|updates?|rank|gpu|worker|device|node|of)\W{0,3}$",
    _FLAGS,
)
# ... but "85.3 ms/it | 750.2 samples/s" has a number of its own before it.
_QUANTITY_BEFORE = re.compile(r"\d\s?[mun\u00b5]?s(?:ec)?\s?/\s?\w{2,10}\W{0,3}$", re.IGNORECASE)
AVERAGES = ("avg", "average", "mean", "overall")
"""Words for averages, which may be of all steps since the first."""

NO_RATES = (
    *("max", "maximum", "peak", "best", "min", "minimum", "std", "sd"),
    *("target", "goal", "limit", "expected", "theoretical"),
)
"""Words for values that may stay the same while the program becomes slower."""

_OTHER_MEASURE = re.compile(
    rf"(?:\b|_)(?P<measure>{'|'.join((*AVERAGES, *NO_RATES))}|median|p\d\d)"
    r"(?:\s(?:throughput|speed|rate))?\W{0,3}$",
    _FLAGS,
)
_WORD_AFTER = re.compile(r"\s{0,2}(?:[a-z%\u00b5]|/)", re.IGNORECASE)
# Numbers may stand behind their words: "lr 3e-4 tok/s 45123 TFLOPS 123.4".
_OTHER_UNIT = r"(?:[mun]?s|sec|min|h|[kmgt]?i?b|w|watts?)"
_LABEL_BEFORE = re.compile(r"[a-z_]\s{1,3}$", _FLAGS)
_LABEL_AFTER = re.compile(
    rf"\s{{1,3}}(?!{_OTHER_UNIT}\b)[a-z_][\w.]{{0,30}}[ :=]{{1,3}}{NUMBER}(?!\S{{0,9}}/|[\d.]|\s?{_OTHER_UNIT}\b)",
    _FLAGS,
)
_STEP = r"(?:(?:global_)?steps?|it|iters?|iterations?|batch(?:es)?)"


def counts_steps(unit: str) -> bool:
    """Whether a unit is a name for steps."""
    return re.fullmatch(_STEP, unit, _FLAGS) is not None


@cache
def _per_second(words: str) -> re.Pattern[str]:
    return re.compile(
        # "train/samples_per_sec" is one name, and "3 tokens/images/s" is none.
        rf"[(\[]?(?:(?<![a-z_/.-])|(?<=[a-z][/.])(?={words}_per_))(?P<factor>(?-i:[kKMG])?){words}[\s_]?(?:/|per[\s_])\s?s(?:ec(?:ond)?s?)?"
        rf"(?P<per_device>{_PER_DEVICE})?(?![\w/]|\sper\b)",
        _FLAGS,
    )


class _Value(NamedTuple):
    value: float
    per_device: bool
    other_measure: str  # an average or a peak, named so; "" for none


class _Number(NamedTuple):
    """The number of a mention of the unit: before or behind it, with the text before both."""

    match: re.Match[str]
    label: str
    is_behind: bool


def read_rate(line: str, unit: str, devices: int) -> Reading | Unread | LeftOut | None:
    """The line's rate in a unit such as "images", of all devices; None where no number stands beside the unit."""
    word = unit.removesuffix("s").lower()
    return _read(line, _per_second(f"{re.escape(word)}s?"), Kind.RATE, devices) if word in line.lower() else None


_STEP_RATE = _per_second(_STEP)
_STEP_TIME = re.compile(
    rf"[(\[]?(?<![a-z_/.-])(?P<milli>m?)s(?:ec(?:ond)?s?)?[\s_]?(?:/|per[\s_])\s?{_STEP}(?![\w/]|\sper\b)", _FLAGS
)


def read_steps(line: str) -> Reading | Unread | LeftOut | None:
    """The steps per second that a line names, or the time that a step takes; None where it has neither."""
    seconds, rate = _read(line, _STEP_TIME, Kind.SECONDS), _read(line, _STEP_RATE, Kind.STEP_RATE)
    if isinstance(seconds, Reading) and isinstance(rate, Reading) and not 2 / 3 < seconds.value * rate.value < 1.5:
        return Unread(f"it has {seconds.value:g} s a step and {rate.value:g} steps a second")
    return seconds or rate


def _read(line: str, unit: re.Pattern[str], kind: Kind, devices: int = 1) -> Reading | Unread | LeftOut | None:
    values: list[_Value] = []
    for mention in unit.finditer(line):
        value = _beside(line, mention, kind)
        if isinstance(value, Unread):
            return value
        values += [] if value is None else [value]
    if not values:
        return None
    # "12 images/s (3 images/s/gpu, average 11.9 images/s)": the first is the program's rate.
    values = [value for value in values if not value.per_device] or values
    values = [value for value in values if not value.other_measure] or values
    if values[0].other_measure in NO_RATES:
        return LeftOut(f"{values[0].other_measure!r} names no rate of these steps")
    numbers = {value.value * (devices if value.per_device else 1) for value in values}
    if len(numbers) > 1:
        what = "times" if kind is Kind.SECONDS else "rates"
        return Unread(f"it has {len(numbers)} {what}, {' and '.join(f'{number:g}' for number in sorted(numbers))}")
    is_average = values[0].other_measure in AVERAGES
    return Reading(kind, numbers.pop(), loss=loss_in(line), is_named_average=is_average)


def _beside(line: str, mention: re.Match[str], kind: Kind) -> _Value | Unread | None:
    """The value of a mention of the unit; None where no number stands beside it."""
    head, tail = line[: mention.start()], line[mention.end() :]
    number = _number_beside(head, tail, kind)
    if number is None or isinstance(number, Unread):
        return number
    match = number.match
    behind = tail[match.end() :] if number.is_behind else ""
    if _MORE_AFTER.match(behind) or ("[" in match[0] and _MORE_IN_LIST.match(behind)):
        return Unread("it has several numbers for one unit")
    if _is_group_of_thousands(number, behind):
        return Unread("a space between digits may separate thousands or two numbers")
    if match["factor"] == "m":
        return Unread("'m' may be a thousandth or a million")
    groups = mention.groupdict()
    value = to_float(match["number"], match["factor"] or groups.get("factor", ""))
    other = _OTHER_MEASURE.search(number.label)
    return _Value(
        value / (1000 if groups.get("milli") else 1),
        per_device=bool(groups.get("per_device")),
        other_measure=other["measure"].lower() if other else "",
    )


def _number_beside(head: str, tail: str, kind: Kind) -> _Number | Unread | None:
    """Choose between the number at the end of `head` and that at the beginning of `tail`, around the unit."""
    before, after = _NUMBER_BEFORE.search(head), _NUMBER_AFTER.match(tail)
    if _SIGN_AFTER.match(tail):  # "loss: 0.5 images/sec: 632.9"
        if after is not None:
            return _Number(after, head, is_behind=True)
        return Unread("no number follows the unit's sign") if before or re.search(r"\d", tail) else None
    if before is not None and after is not None and _may_be_of(head[: before.start()], tail[after.end() :]):
        if _counts(head[: before.start()]):  # "step 120 images/sec 1234.5"
            return _Number(after, head, is_behind=True)
        return Unread(f"both {before['number']} and {after['number']} stand beside the unit")
    if before is not None:
        return _number_before(before, head[: before.start()], kind)
    if after is not None:
        return _Number(after, head, is_behind=True)
    return Unread("its number is not plain") if re.search(r"\d\W{0,3}$", head) else None


def _number_before(number: re.Match[str], label: str, kind: Kind) -> _Number | Unread:
    """The number before the unit, unless its label shows that it is another number, or a part of one."""
    if kind is Kind.RATE and _counts(label):
        return Unread(f"{number['number']} counts something else")
    if _EXPRESSION_BEFORE.search(label):
        return Unread(f"{number['number']} is a part of an expression")
    if kind is Kind.SECONDS and _MINUTES_BEFORE.search(label):
        return Unread("it has a time in minutes and seconds")
    if value := _VALUE_BEFORE_ERROR.search(label):
        return _Number(value, label[: value.start()], is_behind=False)
    if _RANGE_BEFORE.search(label):
        return Unread("it has a range of rates")
    if _ERROR_SIGN_BEFORE.search(label):
        return Unread(f"{number['number']} is an error, and its value is not plain")
    return _Number(number, label, is_behind=False)


def _may_be_of(head: str, tail: str) -> bool:
    """Whether the number behind the unit, before `tail`, may belong to it in place of the number before the unit."""
    return not _WORD_AFTER.match(tail) or bool(_LABEL_BEFORE.search(head) and _LABEL_AFTER.match(tail))


def _is_group_of_thousands(number: _Number, behind: str) -> bool:
    """Whether the number may be a part of a number with spaces in it, as 1 234.5."""
    digits = number.match["number"]
    if number.is_behind:
        return bool(re.match(r"\d{1,3}$", digits) and re.match(r"[ ]\d{3}(?!\d)", behind))
    head = re.search(r"(?<!\S)\d{1,3}(?: \d{3})* $", number.label)
    if head is None or head[0].startswith("0") or not re.match(r"\d{3}(?!\d)", digits):
        return False
    return not _counts(number.label[: head.start()])


def _counts(label: str) -> bool:
    """Whether the number behind such words counts steps or the like."""
    return _COUNTER_BEFORE.search(label) is not None and not _QUANTITY_BEFORE.search(label)
