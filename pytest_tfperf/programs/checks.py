"""Compares what lines state with the clock and with one another, and refuses what would be wrong in silence."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.throughput import MIN_WINDOWS_FOR_ERROR
from pytest_tfperf.programs.reading import Kind, Reading, Unreadable, shown, step_in

BY_STEPS = "leave reads out: by its steps, training is told from evaluation"
"""The next step where lines of training and of something else can't be told apart."""

_ONE_RATE = "let one process print the rate of all"
_MOST_KEPT = 1000
AGREE = math.log(1.05)
"""Two measurements of one thing differ by less."""

PAUSE = 5
"""Times the usual time of a step."""

LEAST_PAUSES = 3

_LEAST_FALL = 0.02
_ERRORS = 2.0  # by which they differ at least
_BY_CHANCE = 1e-4  # in each direction
_OF_NEIGHBOURS = 2 / 3  # degrees of freedom of a variance between neighbours
_LEAST_READINGS = 10  # to call a number that is always the same a setting
_LEAST_TIMES = 5
_LATE = 0.01  # deviation of the units in a count by recent rates, because lines are read a little late
# Numbers, and units that change with their size: "950 ms/step" and "1.1 s/step", "3.6 it/s" and "1.2 s/it".
_VARIES = re.compile(
    r"[+-]?(?:\d[\d.,:]*(?:e[+-]?\d+)?(?:\s?(?:[kmg]|[mun\u00b5]?s(?:ec)?|it)(?![a-z]))?|(?<![a-z])(?:nan|inf)\b)"
    r"(?:/(?:s|it)\b)?|\s",
    re.IGNORECASE,
)
_LIKE_A_BAR = re.compile(r"\d%\s?[|\[]|[\u2501\u2588]{3}|\[\s?[\d:]+\s?<|[=>.]{5}\]|s/step")
_LABELLED = re.compile(r"(\D{0,30})(?<![\w.,])(\d{1,15})(?!\w|[.,]\d)")


def form_of(line: str) -> str:
    """A line without its numbers, which is the same for all lines of a series."""
    return _VARIES.sub("", line)


class _Rate(NamedTuple):
    """A recent rate and the line that states it."""

    at: float  # in seconds
    per_sec: float  # units
    line: str


class _Units(NamedTuple):
    """The units in a count by a rate and the clock."""

    units: float
    seconds: float  # of a count
    before: _Rate
    rate: _Rate
    is_step: bool  # the lines name steps


class Checks:
    """The rates, times and steps of a program's lines; `conclude` refuses them where they contradict one another."""

    def __init__(self, command: Command, least_seconds: float) -> None:
        self._per_step = command.counted_per_step
        self._counted = command.counted
        self._may_be_averages = command.reads is not None and command.reads.rate_is is None
        self._least_seconds = least_seconds  # lines that come closer may have been printed together
        self._order = StepOrder()
        self._rates: list[_Rate] = []
        self._is_printed = False  # the rates are as they were printed, and no undone averages

    def take(self, reading: Reading) -> None:
        """Note a reading.

        Raises:
            Unreadable: several processes print.
        """
        if reading.kind is Kind.STEP:
            is_bar = _LIKE_A_BAR.search(reading.line) is not None
            self._order.take(reading.value, reading.line, "" if is_bar else form_of(reading.line))
        elif (step := step_in(reading.line)) is not None:
            self._order.take(step, reading.line, form_of(reading.line))

    def take_rate(self, now: float, per_sec: float, line: str, *, is_printed: bool) -> None:
        """Note a recent rate."""
        self._is_printed = is_printed
        if len(self._rates) < _MOST_KEPT:
            self._rates.append(_Rate(now, per_sec, line))

    def conclude(self, ambiguous: str = "") -> None:
        """Refuse rates and times that the clock or other lines contradict.

        Args:
            ambiguous: a line whose comma may be a decimal one; the clock may decide.

        Raises:
            Unreadable: they do.
        """
        if not self._rates:
            return
        is_confirmed = self._agree_with_the_clock()
        self._require_time()
        if is_confirmed:
            return
        if ambiguous:
            raise Unreadable(
                f"the comma in {ambiguous!r} may separate thousands or decimals",
                "print the number without it, or give parse=, a function that returns the number",
            )
        _require_one_at_a_time([rate for rate in self._rates if step_in(rate.line) is None])
        self._require_no_drift()
        _require_one_rank([rate.line for rate in self._rates])
        if self._is_printed:
            self._require_change()
            require_one_level(self._rates)
            if (
                self._may_be_averages
                and not self._follow_the_clock()
                and contains_a_start([rate.per_sec for rate in self._rates])
            ):
                raise Unreadable(
                    "its rates look like averages since the first one, which hide most of a change",
                    "give rate_is='average' in Reads(...) to undo them, or rate_is='recent' if they are none",
                )

    def _units(self) -> list[_Units]:
        """The units in each step, or other count, by a rate and the time since the line before."""
        steps: list[int | None] = [step_in(rate.line) for rate in self._rates]
        is_step = None not in steps
        if not is_step:
            steps = list(_rising_number([rate.line for rate in self._rates]))
        found: list[_Units] = []
        begun: tuple[_Rate, int] | None = None
        units, last = 0.0, self._rates[0]
        for rate, step in zip(self._rates, steps, strict=False):
            units, last = units + rate.per_sec * (rate.at - last.at), rate
            if step is None:
                continue
            if begun is None or step < begun[1]:
                begun, units = (rate, step), 0.0
            seconds, count = rate.at - begun[0].at, step - begun[1]
            if count > 0 and seconds >= self._least_seconds:
                found.append(_Units(units / count, seconds / count, begun[0], rate, is_step))
                begun, units = (rate, step), 0.0
        return found

    def _agree_with_the_clock(self) -> bool:
        """Whether the rates agree with the steps and the time between them, so that no doubt is left."""
        units = [found.units for found in self._units() if found.is_step]
        if self._per_step is None or len(units) < MIN_WINDOWS_FOR_ERROR:
            return False
        logs = [math.log(each / self._per_step) for each in units]
        by_the_clock = statistics.median(units)
        differs, error = abs(math.log(by_the_clock / self._per_step)), statistics.stdev(logs) / math.sqrt(len(logs))
        if differs > AGREE and differs > _ERRORS * error:
            stated = statistics.median(rate.per_sec for rate in self._rates)
            by_steps = stated * self._per_step / by_the_clock
            raise Unreadable(
                f"its lines state {stated:.4g} {self._counted}/s, and its steps come at {by_steps:.4g} by "
                f"the clock, if a step holds {self._per_step:,}, as in {shown(self._rates[-1].line)!r}",
                "a printed time may leave out the data or be taken before the device has finished: read the counter in "
                r"its place, as by reads=Reads(pattern=r'step (?P<step>\d+)'); or correct examples_per_step",
            )
        return True

    def _require_time(self) -> None:
        """Refuse times of steps that add up to more than has passed since the first line."""
        if self._per_step is None or len(self._rates) <= _LEAST_TIMES:
            return
        first, *others = self._rates
        stated, passed = math.fsum(self._per_step / rate.per_sec for rate in others), others[-1].at - first.at
        if passed > self._least_seconds and math.log(stated / passed) > AGREE:
            raise Unreadable(
                f"the times of its steps add up to {stated:.1f} s, and only {passed:.1f} s have passed from "
                f"{shown(first.line)!r} to {shown(others[-1].line)!r}",
                "it may be the time since the start, or of many steps: read the counter beside it, as by "
                rf"reads=Reads(pattern=r'step (?P<step>\d+)'); if several processes print, {_ONE_RATE}",
            )

    def _require_no_drift(self) -> None:
        """Refuse rates that don't change with the time between lines, as averages don't."""
        found = self._units()
        if self._is_printed:
            _require_recent(found)
        units = [math.log(each.units) for each in found]
        third = len(units) // 3
        if third < 2 or not _drifts(units, third):
            return
        change = math.exp(statistics.fmean(units[-third:]) - statistics.fmean(units[:third]))
        fact = (
            f"by its rates and the time between lines, a step holds {change:.3g} times as much at the end as at first"
        )
        if self._is_printed:
            step = "give rate_is='average' in Reads(...) if they are averages since the first step"
        else:
            step = "the first lines of averages may stand for steps that were not printed"
        raise Unreadable(
            f"{fact}: {shown(self._rates[0].line)!r} to {shown(self._rates[-1].line)!r}",
            rf"{step}; or read a counter, as by reads=Reads(pattern=r'step (?P<step>\d+)')",
        )

    def _follow_the_clock(self) -> bool:
        """Whether the rates change with the time between lines, so that they are recent."""
        units = [math.log(found.units) for found in self._units()]
        return len(units) >= 2 * _LEAST_OF_A_LEVEL and statistics.pstdev(units) < _LATE

    def _require_change(self) -> None:
        values = {rate.per_sec for rate in self._rates}
        if len(values) == 1 and len(self._rates) >= _LEAST_READINGS:
            raise Unreadable(
                f"its number is the same in each of {len(self._rates)} lines, as in {shown(self._rates[0].line)!r}: it "
                "is a setting, or has too few digits",
                "read the number that is measured, or a counter, as by "
                r"reads=Reads(pattern=r'step (?P<step>\d+)')",
            )


# "[rank0]:" and "1: " of srun, but neither "tokens/s/device: 166.2" nor "GPU: 97 %".
_RANK = re.compile(
    r"(?<![a-z]/)(?<!per )(?:\b|_)(?:rank|worker|pid|process|replica|node|host|gpu|device)\W{0,3}(\d{1,9})\b"
    r"(?!\.\d|,\d{3}|\s?(?:%|\u00b0|[CW]\b|[kMGT]i?B\b))|^\[?(\d{1,4})\]?: ",
    re.IGNORECASE,
)


def _require_one_rank(lines: Sequence[str]) -> None:
    """Refuse lines that name several processes in turn."""
    ranks = [rank[1] or rank[2] for line in lines if (rank := _RANK.search(line))]
    turns = sum(a != b for a, b in pairwise(ranks))
    if len(set(ranks)) > 1 and min(Counter(ranks).values()) >= _LEAST and turns > len(ranks) / 3:
        raise _several("its lines name several processes in turn", *lines[:2])


def _require_recent(found: Sequence[_Units]) -> None:
    """Refuse rates that fall a little with each pause, as averages do; recent ones fall with it, or leave it out."""
    if len(found) < _LEAST_READINGS:
        return
    usual = statistics.median(each.seconds for each in found)
    changes = [math.log(each.before.per_sec / each.rate.per_sec) for each in found]
    noise = _deviation(changes)
    pauses = [
        (fall, each)
        for fall, each in zip(changes, found, strict=True)
        if each.seconds > PAUSE * usual and fall < math.log(each.seconds / usual) / 2
    ]
    falls = [each for fall, each in pauses if fall > max(_LEAST_FALL, 3 * noise)]
    if len(falls) >= LEAST_PAUSES and len(falls) > len(pauses) / 2:
        raise Unreadable(
            "its rates fall a little with each pause, as averages since the start do: "
            f"{shown(falls[-1].before.line)!r} and, {falls[-1].rate.at - falls[-1].before.at:.1f} s later, "
            f"{shown(falls[-1].rate.line)!r}",
            rf"read a counter, as by reads=Reads(pattern=r'step (?P<step>\d+)'); or {BY_STEPS}",
        )


def _rising_number(lines: Sequence[str]) -> Sequence[int | None]:
    """The whole number behind one label that rises from each line to the next; empty if there is none."""
    rows = [{match[1]: int(match[2]) for match in _LABELLED.finditer(line)} for line in lines]
    for label in rows[0]:
        numbers = [row.get(label) for row in rows]
        if all(a is not None and b is not None and b > a for a, b in pairwise(numbers)):
            return numbers
    return ()


def _drifts(logs: Sequence[float], third: int) -> bool:
    """Whether the last third of a series of logarithms differs from the first by more than by chance.

    The noise is that between neighbours, which a drift hardly changes (von Neumann 1941). Each run of a program is
    checked, and a busy machine must stop none of them.
    """
    from scipy.special import stdtrit

    change = abs(statistics.fmean(logs[-third:]) - statistics.fmean(logs[:third]))
    noise = math.sqrt(statistics.fmean((after - before) ** 2 for before, after in pairwise(logs)) / 2)
    freedom = _OF_NEIGHBOURS * (len(logs) - 1)
    by_chance = -float(stdtrit(freedom, _BY_CHANCE)) * noise * math.sqrt(2 / third)
    return change > max(AGREE if third > 2 else _LEAST_GAP, by_chance)


_LEAST_OF_A_LEVEL = 3
_LEAST_SHARE = 0.05
_LEAST_GAP = math.log(1.35)  # evaluation has no backward pass
_MOST_SPREAD = 0.12  # of a level, as a part of the gap
_ALIKE_LENGTH, _MOST_ALIKE = 0.2, 0.6
_MAD_TO_DEVIATION = 1.48


def require_one_level(rates: Sequence[_Rate]) -> None:
    """Refuse rates of two kinds of lines: two levels in turn, or two forms of lines that differ."""
    forms: dict[str, list[_Rate]] = {}
    for rate in rates:
        forms.setdefault(form_of(rate.line), []).append(rate)
    large = sorted((of for of in forms.values() if len(of) >= _LEAST_OF_A_LEVEL), key=lambda of: _median(of))
    if len(large) > 1 and math.log(_median(large[-1]) / _median(large[0])) > _LEAST_GAP:
        raise _two_kinds(large[0], large[-1])
    if levels := two_levels([rate.per_sec for rate in rates]):
        raise _two_kinds(
            *([rate for rate, level in zip(rates, levels, strict=True) if level is of] for of in (False, True))
        )


def _median(rates: Sequence[_Rate]) -> float:
    return statistics.median(rate.per_sec for rate in rates)


def _two_kinds(slow: Sequence[_Rate], fast: Sequence[_Rate]) -> Unreadable:
    return Unreadable(
        f"its rates are of two kinds, about {_median(slow):.4g} in {shown(slow[0].line)!r} and {_median(fast):.4g} in "
        f"{shown(fast[0].line)!r}: one may be of evaluation",
        f"let the pattern find the lines of training only, or give parse=, a function of a line; or {BY_STEPS}",
    )


def two_levels(values: Sequence[float]) -> Sequence[bool]:
    """Whether each value is of the higher one of two levels that come in turn, in stretches; empty for one level."""
    logs = [math.log(value) for value in values]
    ordered = sorted(logs)
    least = max(_LEAST_OF_A_LEVEL, math.ceil(_LEAST_SHARE * len(logs)))
    if len(logs) < 2 * least:
        return ()
    cut = max(range(least, len(logs) - least + 1), key=lambda at: _between(ordered, at))
    low, high = ordered[:cut], ordered[cut:]
    gap = statistics.median(high) - statistics.median(low)
    if gap < _LEAST_GAP or max(map(_deviation, (low, high))) > _MOST_SPREAD * gap:
        return ()
    levels = [log >= high[0] for log in logs]
    stretches = [(level, len(list(of))) for level, of in groupby(levels)][1:-1]
    is_regular = all(_are_alike([length for level, length in stretches if level is of]) for of in (False, True))
    return levels if stretches and is_regular else ()


def _are_alike(lengths: Sequence[int]) -> bool:
    """Whether most stretches are as long as one another, as those of evaluation, and unlike those of a busy machine."""
    usual = statistics.median(lengths) if lengths else _LEAST_OF_A_LEVEL
    alike = [length for length in lengths if abs(length - usual) <= 1 + _ALIKE_LENGTH * usual]
    return usual > 1 and len(alike) >= _MOST_ALIKE * len(lengths)


def _between(ordered: Sequence[float], at: int) -> float:
    """The variance between two groups of values, as in Otsu's method."""
    low, high = ordered[:at], ordered[at:]
    return len(low) * len(high) * (statistics.fmean(high) - statistics.fmean(low)) ** 2


def _deviation(values: Sequence[float]) -> float:
    middle = statistics.median(values)
    return _MAD_TO_DEVIATION * statistics.median(abs(value - middle) for value in values)


_LEAST_OF_A_START = 10  # readings
_LEAST_CHANGE = 0.03
_ALIKE = (0.6, 1.6)  # ratio of the later half's slope to the slope of all
_MOST_OF_THE_CHANGE = 0.05  # the part that the start does not explain


def contains_a_start(rates: Sequence[float]) -> bool:
    """Whether the start's time is spread over ever more steps: the k-th average takes a + b/k seconds for a unit.

    The first reading may be of the first step alone, and so not belong to the series.
    """
    times = [1 / rate for rate in rates]
    return any(_falls_like_one_over_k(part) for part in (times, times[1:]))


def _falls_like_one_over_k(times: Sequence[float]) -> bool:
    if len(times) < _LEAST_OF_A_START:
        return False
    shares = [1 / k for k in range(1, len(times) + 1)]
    line = statistics.linear_regression(shares, times)
    change = line.slope * (shares[0] - shares[-1])
    if line.intercept <= 0 or change < _LEAST_CHANGE * line.intercept:
        return False
    half = len(times) // 2
    later = statistics.linear_regression(shares[half:], times[half:])
    # Rates that settle after a cold start are steady in the later half; noise hides that of a small change.
    if change > line.intercept and not _ALIKE[0] < later.slope / line.slope < _ALIKE[1]:
        return False
    left = [each - line.intercept - line.slope * share for share, each in zip(shares, times, strict=True)]
    return statistics.pstdev(left) < _MOST_OF_THE_CHANGE * statistics.pstdev(times)


_TOGETHER_SECONDS = 0.1
_LEAST_BURSTS = 3
_MOST_OF_BURSTS = 0.7
_MOST_RISES = 0.75  # of a number, among lines of two processes or more
_LEAST_APART = 3


def _require_one_at_a_time(rates: Sequence[_Rate]) -> None:
    """Refuse lines that come together and have no counter, as those of several processes do."""
    gaps = [after.at - before.at for before, after in pairwise(rates)]
    apart = math.fsum(gap for gap in gaps if gap > _TOGETHER_SECONDS)
    within = math.fsum(gaps) - apart
    bursts = sum(is_near for is_near, _ in groupby(gap <= _TOGETHER_SECONDS for gap in gaps))
    moments = 1 + sum(gap > _TOGETHER_SECONDS for gap in gaps)
    is_apart = apart > _LEAST_APART * within  # unlike steps of about 0.1 s
    if bursts < max(_LEAST_BURSTS, _MOST_OF_BURSTS * moments) or not is_apart:
        return
    rows = [{match[1]: int(match[2]) for match in _LABELLED.finditer(rate.line)} for rate in rates]
    for label in rows[0]:
        numbers = list(accumulate((row.get(label, 0) for row in rows), max))
        if sum(b > a for a, b in pairwise(numbers)) > _MOST_RISES * len(gaps):  # and not with each burst only
            return
    near = next(number for number, gap in enumerate(gaps) if gap <= _TOGETHER_SECONDS)
    raise _several("its lines come several at a time", rates[near].line, rates[near + 1].line)


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
        """Add a line's step. Only lines of one form repeat it; the form is "" for a line that may be drawn again."""
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
        f"{_ONE_RATE}, or let the pattern find the lines of one, with of='device' for its rate; if one process prints, "
        "set PYTHONUNBUFFERED=1 or print a step in each line",
    )
