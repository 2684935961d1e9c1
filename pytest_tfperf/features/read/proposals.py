"""Ways to read lines: known formats, and patterns of the counters, rates and times that they seem to have.

They are guesses by words and numbers, so `tfperf read` tries each on the output before a user sees it.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import NamedTuple

from pytest_tfperf.core.command import FORMATS_OF_RATES, FORMATS_OF_STEPS, STEPS, Command, RateIs, Reads
from pytest_tfperf.programs.checks import contains_a_start
from pytest_tfperf.programs.output_reader import Reader
from pytest_tfperf.programs.own_formats import json_object
from pytest_tfperf.programs.reading import Unreadable, number_in

_MOST_LINES = 2000
_MOST_OF_A_LINE = 1024
_MOST_NUMBERS = 40  # in a line
_MOST_BEFORE = 60  # characters before a line's first number that a pattern repeats
_MOST_WORDS = 3  # before any other number
_LEAST_LINES = 3
# And bars of tqdm, which its format reads: where several advance, nothing tells which one is training's.
_OTHER_WORK = re.compile(
    r"\b(?:download\w*|fetch\w*|load(?:ing|ed)|generating|tokeniz\w*|preprocess\w*|extract\w*|saving|saved|resolving)\b"
    r"|%\|.{0,400}\|\s*\d+/\d+\s\[",
    re.IGNORECASE,
)

# "632.9 img/s", "img/sec: 632.9" and "train_img_per_second: 632.9", but neither "12 MB/s" nor "5 TFLOPS/s".
_ANY_UNIT = re.compile(
    r"(?<![A-Za-z])(?!\w?i?B/|bytes?/|[TG]?FLOPS?/)[kKMG]?(?P<unit>[A-Za-z]{2,20})"
    r"(?:\s?/\s?|[_ ]per[_ ])s(?:ec(?:ond)?)?(?![A-Za-z/]|\sper\b)"
)
_NO_LABELS = (
    "avg",
    "average",
    "mean",
    "overall",
    "max",
    "peak",
    "best",
    "min",
    "std",
    "target",
    "limit",
    "theoretical",
)
_LIKE_A_RATE = re.compile(r"per_?s|/s|throughput|speed|^[tfqi]ps$", re.IGNORECASE)
_SECONDS = r"(?P<milli>m)?s(?:ec(?:ond)?s?)?\b(?!\s?/(?!step|it|batch))"
# Neither a part of a date, a time of day or a version, nor of a name.
_NUMBER = re.compile(
    r"(?<![\w.,+-])(?<!\d[:/])\d{1,15}(?:,\d{3})*(?:\.\d{1,20})?(?:[eE][+-]?\d{1,3})?(?P<factor>[kKMG]\b)?"
    r"(?=m?s(?:ec(?:ond)?s?)?\b|[kKMG]?[a-z]ps\b|\W|$)(?![:.]\d|,\d{3}(?!\d)|-\d\d?-|/\d\d?/\d)",
    re.ASCII,
)
_TIME_BEHIND = re.compile(rf"\s?{_SECONDS}")
_OTHER_UNIT_BEHIND = re.compile(r"\s?(?:%|\u00b0|[kKMGT]i?B\b|[un\u00b5]s\b|min\w*\b|h\b|days?\b|[A-Za-z]+/)")
_TOTAL_BEHIND = re.compile(r"/\d{1,15}(?![\d/])")
_QUOTE = re.compile("'")  # hard to read in a shell's command
_NUMBER_BEFORE = r"[\d.,/]+"
_LABEL = re.compile(r"[^\W\d].*")
_WORD = re.compile(r"[^\W\d_]+")

_STEP_WORDS = ("step", "iter", "iteration", "it", "ite", "batch", "minibatch", "update")
_OTHER_WORDS = (
    *("epoch", "round", "tree", "generation", "episode", "game"),
    *("timestep", "frame", "sample", "example", "image", "token", "sequence", "word"),
)
_UNITS = {"tf_cnn_benchmarks": "images", "gensim": "words", "torchtitan": "tokens", "maxtext": "tokens"}
_RATE_WORDS = {
    "fps": "frames",
    "wps": "words",
    "tps": "tokens",
    **dict.fromkeys(("sps", "ips", "qps", "throughput", "speed"), "examples"),
}
_MORE_NUMBERS_BEHIND = re.compile(r"[\s/;,|]{1,4}\d|\s?(?:-|\.\.|\u2013|to)\s?\d|\s?(?:\u00b1|\+)")
_EVALUATION = re.compile(r"eval|valid|val$|test|predict|infer")
_COUNTED_BEHIND = re.compile(rf"\s(?P<word>{'|'.join(_OTHER_WORDS)})s?\b(?!\s?(?:/|per\b))", re.IGNORECASE)
_RATE_BEHIND = re.compile(rf"\s?(?P<word>{'|'.join(_RATE_WORDS)})\b(?!\s?[:=])", re.IGNORECASE)
_COUNTED_IN_NAME = re.compile(r"([a-z]{2,20})s?_?(?:per_|/)s", re.IGNORECASE)
_TIME_WORDS = ("time", "took", "dt", "duration", "dur", "seconds", "sec", "secs", "ms")
_LEAST_ADVANCES = 0.3  # of successive lines: all steps of an epoch repeat its number
_MOST_FALLS = 0.2
_STEADY = (0.8, 1.25)  # ratio of the last third's median to the first's
_SHARES_OF_THE_CLOCK = (0.7, 1.2)  # lines of evaluation and rounding


class Proposal(NamedTuple):
    """A way to read lines."""

    reads: Reads
    unit: str  # what its rate counts
    counts: str = ""  # what the numbers count or time, such as "step"; "" for a rate that the program prints
    examples_per_step: int | None = None


@dataclass
class _Column:
    """The numbers at the same place of several lines."""

    before: str  # a pattern of the text before the number
    words: tuple[str, ...]  # those before the number, in lower case
    behind: str
    text_before: str  # directly before the number
    texts: list[str] = field(default_factory=list)
    at: list[float] = field(default_factory=list)  # seconds

    @property
    def values(self) -> list[float]:
        return [float(text.rstrip("kKMG").replace(",", "")) for text in self.texts]

    @property
    def is_bare(self) -> bool:
        """Whether no word stands before the numbers, so that their place in the line must do."""
        return not self.words

    @property
    def is_of_evaluation(self) -> bool:
        return any(_EVALUATION.match(word) for word in self.words)

    @property
    def word(self) -> str:
        return self.words[-1] if self.words else ""

    def pattern(self, group: str) -> str:
        number = r"\d+" if group == "step" and all(map(str.isdigit, self.texts)) else r"[\d.,]*\d"
        number += r"(?:[eE][+-]?\d+)?" if any("e" in text.lower() for text in self.texts) else ""
        number += r"(?:[kKMG]\b)?" if any(text[-1:] in "kKMG" for text in self.texts) else ""
        return f"{self.before}(?P<{group}>{number}){self._pattern_behind(group)}"

    def _pattern_behind(self, group: str) -> str:
        if time := _TIME_BEHIND.match(self.behind):
            return rf"\s?{time[0].strip()}\b"
        if group == "rate" and (rate := _RATE_BEHIND.match(self.behind)):
            return rf"\s?{rate['word']}\b"
        if group == "rate" and (unit := _ANY_UNIT.match(self.behind.lstrip())):
            return rf"\s?{re.escape(unit[0])}"
        if group == "step" and (counted := _COUNTED_BEHIND.match(self.behind)):
            return rf"\s{counted['word']}"
        if not self.is_bare or not self.behind:
            return ""
        return r"\s" if self.behind[0].isspace() else _escaped(self.behind[0])


def proposals(printed: Sequence[tuple[float, str]]) -> Iterator[Proposal]:
    """Ways to read these lines, those that mislead least first.

    Lines with a counter are timed by when they come, in seconds, whatever the program says of its speed.
    """
    yield from _formats([line for _, line in printed[:_MOST_LINES]])
    lines = [(at, line[:_MOST_OF_A_LINE]) for at, line in printed[-_MOST_LINES:] if not _OTHER_WORK.search(line)]
    columns = [
        column for column in _columns(lines) if len(column.texts) >= _LEAST_LINES and not column.is_of_evaluation
    ]
    header = _header([line for _, line in lines])
    counters = [(counted, column) for column in columns if (counted := _counted(column, header))]
    for counted, column in sorted(counters, key=lambda counter: (counter[0] != "step", -len(counter[1].texts))):
        per_step = None if counted == "step" else 1
        yield Proposal(Reads(pattern=column.pattern("step")), f"{counted}s", counted, per_step)
    for name in dict.fromkeys(name for _, line in lines for name in _rate_fields(line)):
        values = [value for _, line in lines if (value := number_in((json_object(line) or {}).get(name))) is not None]
        yield from _rates(Reads(field=name), _unit_of(name), values)
    for column in columns:
        if unit := _rate_unit(column):
            yield from _rates(Reads(pattern=column.pattern("rate")), unit, column.values)
    for column in columns:
        if not counters and (group := _time_group(column)):
            yield Proposal(Reads(pattern=column.pattern(group)), STEPS, "step")


def _formats(lines: Sequence[str]) -> Iterator[Proposal]:
    """The known formats that some lines are in."""
    for name in (*FORMATS_OF_STEPS, *FORMATS_OF_RATES):
        reads, unit = Reads(format=name), _UNITS.get(name, STEPS)
        reader = Reader(Command((), name="read", unit=f"{unit}/s", reads=reads))
        with suppress(Unreadable):
            if any(reader.read(line) is not None for line in lines):
                yield Proposal(reads, unit, "" if name in FORMATS_OF_RATES else "step")


def _rate_fields(line: str) -> list[str]:
    """The fields of a JSON line that seem to hold a rate."""
    fields = json_object(line) or {}
    return [name for name, value in fields.items() if number_in(value) is not None and _LIKE_A_RATE.search(name)]


def _rates(reads: Reads, unit: str, values: Sequence[float]) -> Iterator[Proposal]:
    """The rates, if it is plain whether they are recent: those that drift may be averages."""
    third = max(1, len(values) // 3)
    first, last = statistics.median(values[:third]), statistics.median(values[-third:])
    if min(values) > 0 and contains_a_start(values):
        yield Proposal(replace(reads, rate_is=RateIs.AVERAGE), unit)
    elif _STEADY[0] * first < last < _STEADY[1] * first:
        yield Proposal(reads, unit)


def _columns(lines: Sequence[tuple[float, str]]) -> Iterator[_Column]:
    found: dict[tuple[str, str], _Column] = {}
    for at, line in lines:
        for column, text in _numbers_of(line):
            # The unit is a part of the key: "0.25s" is no counter, and "950ms" no seconds.
            unit = _TIME_BEHIND.match(column.behind)
            column = found.setdefault((column.before, unit[0] if unit else ""), column)
            column.texts.append(text)
            column.at.append(at)
    yield from found.values()


def _numbers_of(line: str) -> Iterator[tuple[_Column, str]]:
    """Each number of a line that a pattern of the text before it finds."""
    end, before = 0, ""
    for number in islice(_NUMBER.finditer(line), _MOST_NUMBERS):
        between = line[end : number.start()]
        plain = re.sub(r".*\d\S*", "", between, flags=re.DOTALL)  # without a date
        is_cut, is_first = plain != between, not end
        total = _TOTAL_BEHIND.match(line, number.end())
        end = total.end() if total else number.end()
        before = _before(line, number.start(), plain, "" if is_cut else "^" if is_first else before)
        if before:
            words = tuple(word.lower() for word in _WORD.findall(plain))
            yield _Column(before, words, line[number.end() : number.end() + 20], plain[-30:]), number[0]


def _before(line: str, start: int, between: str, since: str) -> str:
    """A pattern that finds the number at `start`, to be followed by the number's; "" if none is short.

    `between` is the text since the number before, and `since` the pattern up to it: "^" for the line's first number, ""
    for none.
    """
    if since == "^" and len(between) <= _MOST_BEFORE:
        return f"^{_escaped(between)}"
    words = between.split()
    for count in range(1, min(_MOST_WORDS, len(words)) + 1):
        label = _LABEL.search(" ".join(words[-count:]) + " " * between[-1].isspace())
        if label is None:
            continue
        pattern = rf"\b{_escaped(label[0])}"
        if (match := re.search(pattern + r"(?=\d)", line)) and match.end() == start:
            return pattern
    if since in ("", "^") or (words and _WORD.search(between)):
        return ""
    return f"{since}{_NUMBER_BEFORE}{_escaped(between)}"


def _escaped(text: str) -> str:
    """A pattern of a text in which any number of blanks may stand where it has some, and before a number behind it."""
    words = [_QUOTE.sub(".", re.escape(word).replace(r"\-", "-")) for word in text.split()]
    before = r"\s*" if words and text[0].isspace() else ""
    behind = "" if text[-1:].isalnum() else r"\s*"
    return before + r"\s+".join(words) + behind


def _header(lines: Sequence[str]) -> str:
    """The first word of a table's header, if it names a counter; else ""."""
    first_words = (_WORD.findall(line)[:1] for line in lines if not re.search(r"\d", line))
    return next((words[0].lower() for words in first_words if words and _counter(words[0].lower())), "")


def _counter(word: str) -> str:
    """The thing that a word says is counted; "" if it names no counter."""
    word = {"batches": "batch"}.get(word, word.removesuffix("s"))
    return "step" if word in _STEP_WORDS else word if word in _OTHER_WORDS else ""


def _counted(column: _Column, header: str) -> str:
    """The thing that the numbers count, "step" or "epoch"; "" if they are no counter."""
    if _TIME_BEHIND.match(column.behind) or _OTHER_UNIT_BEHIND.match(column.behind):
        return ""
    if behind := _COUNTED_BEHIND.match(column.behind):
        counted = behind["word"].lower()
    elif column.is_bare:
        is_first = column.before.startswith("^") and _NUMBER_BEFORE not in column.before
        counted = (is_first and _counter(header)) or ("step" if is_first or _TOTAL_BEHIND.match(column.behind) else "")
    else:
        counted = _counter(column.word)
    if not counted or (any("." in text or "e" in text for text in column.texts) and counted != "epoch"):
        return ""
    pairs = list(pairwise(column.values))
    rises, falls = sum(b > a for a, b in pairs), sum(b < a for a, b in pairs)
    return counted if rises >= _LEAST_ADVANCES * len(pairs) and falls <= _MOST_FALLS * len(pairs) else ""


def _rate_unit(column: _Column) -> str:
    """What the rate counts; "" if it is none, or not plain."""
    if any(word in _NO_LABELS for word in column.words):
        return ""
    mentions = [_ANY_UNIT.match(column.behind.lstrip()), *_ANY_UNIT.finditer(column.text_before)]
    if mention := mentions[0] or mentions[-1]:
        word = mention["unit"].lower()
        return STEPS if _counter(word) == "step" else word
    return _unit_of(name) if (name := _rate_name(column)) else ""


def _rate_name(column: _Column) -> str:
    """The word that names the rate; "" if it is none, or not plain."""
    if _MORE_NUMBERS_BEHIND.match(column.behind):
        return ""
    if behind := _RATE_BEHIND.match(column.behind):
        return behind["word"]
    if _TIME_BEHIND.match(column.behind) or _OTHER_UNIT_BEHIND.match(column.behind):
        return ""
    return column.word if column.word in _RATE_WORDS else ""


def _unit_of(name: str) -> str:
    counted = _COUNTED_IN_NAME.search(name)
    return f"{counted[1].lower().removesuffix('s')}s" if counted else _RATE_WORDS.get(name.lower(), "examples")


def _time_group(column: _Column) -> str:
    """The group that reads the times of what each line stands for; "" if they don't add up to what has passed."""
    unit = _TIME_BEHIND.match(column.behind)
    if unit is None and (column.word not in _TIME_WORDS or _OTHER_UNIT_BEHIND.match(column.behind)):
        return ""
    is_milli = bool(unit["milli"]) if unit else column.word == "ms"
    passed = column.at[-1] - column.at[0]
    stated = sum(column.values[1:]) / (1000 if is_milli else 1)
    least, most = _SHARES_OF_THE_CLOCK
    if not least * passed < stated < most * passed:
        return ""
    return "milliseconds" if is_milli else "seconds"
