"""Lasting changes over a history's sessions: of each test by itself, of its figures, and of the machine."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pytest_tfperf.core.past import ChangeKind, LastingChange, Series, Value, moment
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.judging.change_points import Values, alarms, shapes, split
from pytest_tfperf.judging.session_effects import MIN_TESTS

_Points = tuple[NDArray[np.int64], Values, Values]
"""A series, oldest first: indices of sessions, values, and times in seconds."""


class _Results:
    """The results of one test or figure, a number of each kind a result: a history has hundreds of thousands."""

    __slots__ = ("decided", "latest", "sessions", "times", "units", "values")

    def __init__(self, first: Value) -> None:
        self.latest = first
        self.sessions, self.units, self.decided = array("i"), array("i"), array("b")
        self.values, self.times = array("d"), array("d")

    def add(self, result: Value, session: int, unit: int) -> None:
        if not self.sessions or session >= self.sessions[-1]:
            self.latest = result
        self.sessions.append(session)
        self.units.append(unit)
        self.decided.append(bool(result.outcome))
        self.values.append(result.value)
        self.times.append(result.at)

    def points(self) -> _Points:
        """Return the last decided result of each session, in the unit of the latest and read at the same place."""
        of_session: dict[int, int] = {}
        for index, session in enumerate(self.sessions):
            if self.decided[index] or session not in of_session or not self.decided[of_session[session]]:
                of_session[session] = index
        unit = self.units[of_session[max(of_session)]]
        kept = [of_session[session] for session in sorted(of_session) if self.units[of_session[session]] == unit]
        return np.array(self.sessions, dtype=np.int64)[kept], np.array(self.values)[kept], np.array(self.times)[kept]


class _Machine:
    """The results of one machine: id, time and commit of each session's first result, and each series."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sessions: list[tuple[str, float, str]] = []
        self.results: dict[Series, _Results] = {}
        self._indices: dict[str, int] = {}
        self._units: dict[tuple[str, str], int] = {}

    @cached_property
    def tests(self) -> int:
        """The number of its throughputs when all results are added, at least 1."""
        return max(sum(not series.figure for series in self.results), 1)

    def add(self, result: Value) -> None:
        # A session is noted even if this result does not count: its figures, which come after all throughputs, may.
        if result.session not in self._indices:
            self._indices[result.session] = len(self.sessions)
            self.sessions.append((result.session, float(result.at), result.commit))
        if not counts(result):
            return
        series = result.series
        if series not in self.results:
            self.results[series] = _Results(result)
        unit = self._units.setdefault((result.unit, result.place), len(self._units))
        self.results[series].add(result, self._indices[result.session], unit)


def changes_of(results: Iterable[Value], *, test: str | None = None) -> list[LastingChange]:
    """Return the changes of each machine and of each of its tests, oldest first.

    The drift common to all tests of a session is subtracted from each test's series, and is a series of its own: the
    machine's. Both need eight tests in a session; smaller sessions are left out if most measurements are in sessions of
    eight tests or more. A figure is a series without a common drift.

    Args:
        results: of any machines and tests, the results of each machine oldest first; they are read once, and not kept.
            Results that are INVALID, were slowed on purpose or are in another unit than the latest don't count. Of a
            test's results in one session the last decided result counts.
        test: the only test whose changes are wanted; the others show the drift. None for all, and for the machines'.
    """
    machines: dict[str, _Machine] = {}
    for result in results:
        if result.machine not in machines:
            machines[result.machine] = _Machine(result.machine)
        machines[result.machine].add(result)
    changes = [change for machine in machines.values() for change in _of_machine(machine, test)]
    return sorted(changes, key=lambda change: moment(change.time))


def counts(result: Value) -> bool:
    """Whether a result says something about the level of its series."""
    is_known = math.isfinite(result.value) and (result.value > 0 or result.figure is not None)
    return is_known and not result.is_slowed_on_purpose and result.outcome is not Outcome.INVALID


def _of_machine(machine: _Machine, test: str | None) -> Iterator[LastingChange]:
    points = {series: results.points() for series, results in machine.results.items()}
    drifts = _drifts(machine, points)
    moments = _moments([time for _, time, _ in machine.sessions])
    known = np.flatnonzero(~np.isnan(drifts))
    if not len(known):
        drifts = np.zeros(len(machine.sessions))
    elif test is None:
        yield from _changes(machine, known, drifts[known], moments)
    for series, (sessions, values, times) in points.items():
        if test not in (None, series.test):
            continue
        if series.figure:
            yield from _of_figure((sessions, values, times), machine, series, moments)
            continue
        has_drift = ~np.isnan(drifts[sessions])
        sessions = sessions[has_drift]
        rates = np.log(values[has_drift]) - drifts[sessions]
        yield from _changes(machine, sessions, rates, moments, series, times[has_drift])


def _of_figure(
    points: _Points, machine: _Machine, series: Series, moments: NDArray[np.int64]
) -> Iterator[LastingChange]:
    """Yield the changes of a figure that exceed its absolute tolerance; figures have no drift in common."""
    sessions, values, times = points
    latest = machine.results[series].latest
    is_log = bool((values > 0).all())
    unit = 1.0 if is_log else float(np.median(np.abs(values))) or float(np.abs(values).max())
    least = (latest.figure and latest.figure.absolute) or 0.0
    if not unit:
        return
    course = np.log(values) if is_log else values / unit
    for change in _changes(machine, sessions, course, moments, series, times, unit=None if is_log else unit):
        if abs(change.size) * (abs(change.before) or unit) > least:
            yield replace(change, better=latest.better)


def _drifts(machine: _Machine, points: Mapping[Series, _Points]) -> Values:
    """Return the machine's drift in each session; all NaN where most measurements are in sessions of few tests."""
    of_rates = [of_series for series, of_series in points.items() if not series.figure]
    rates = np.full((len(machine.sessions), len(of_rates)), np.nan)
    for column, (sessions, values, _) in enumerate(of_rates):
        rates[sessions, column] = np.log(values)
    drifts = common_drifts(rates)
    measured = (~np.isnan(rates)).sum(axis=1)
    has_most = 2 * measured[~np.isnan(drifts)].sum() > measured.sum()
    return drifts if has_most else np.full(len(drifts), np.nan)


def _moments(times: Sequence[float]) -> NDArray[np.int64]:
    """Return the number of each session's moment; sessions within hours share one, as they share a loaded machine."""
    numbers, number, start = [], -1, -math.inf
    for time in times:
        if abs(time - start) > _MOMENT:
            number, start = number + 1, time
        numbers.append(number)
    return np.array(numbers, dtype=np.int64)


def _medians_of(values: Values, starts: NDArray[np.int64]) -> Values:
    """Return the median of each moment's values, which begin at `starts`."""
    lengths = np.diff(starts, append=len(values))
    ordered = values[np.lexsort((values, np.repeat(starts, lengths)))]
    medians: Values = (ordered[starts + (lengths - 1) // 2] + ordered[starts + lengths // 2]) / 2
    return medians


def _changes(
    machine: _Machine,
    sessions: NDArray[np.int64],
    values: Values,
    moments: NDArray[np.int64],
    series: Series | None = None,
    times: Values | None = None,
    unit: float | None = None,
) -> Iterator[LastingChange]:
    """Yield the changes of a series.

    Args:
        sessions: the index of each value's session among the machine's.
        values: logarithms, or multiples of `unit`.
        series: None for the machine's common drift.
        times: of the values; by default those of the sessions.
    """
    starts = np.flatnonzero(np.diff(moments[sessions], prepend=-1))
    points = _medians_of(values, starts)
    for shape in shapes(points, alarms(points, machine.tests)):
        index = int(starts[shape.first])
        if not shape.is_slow:  # the step may lie between two sessions of one moment
            near = slice(int(starts[shape.first - 1]), (*starts, len(values))[shape.first + 1])
            index = near.start + split(values[near], shape.before, shape.before + shape.size)
        (first, time, commit), last = machine.sessions[sessions[index]], machine.sessions[sessions[index - 1]]
        when = datetime.fromtimestamp(time if times is None else float(times[index]), UTC)
        slow = ChangeKind.DECLINE if shape.size < 0 else ChangeKind.RISE
        before, now, size, low, high = shape.before, shape.now, shape.size, shape.low, shape.high
        if unit is None:
            before, now = math.exp(before), math.exp(now)
            size, low, high = math.expm1(size), math.expm1(low), math.expm1(high)
        else:  # sizes become fractions of the level before
            size, low, high = (part / (abs(before) or 1) for part in (size, low, high))
            before, now = before * unit, now * unit
        yield LastingChange(
            machine=machine.name,
            test=series.test if series else None,
            key=series.key if series else None,
            kind=slow if shape.is_slow else ChangeKind.STEP,
            session=first,
            time=when.isoformat(),
            last_session=machine.sessions[sessions[starts[shape.last]]][0] if shape.is_slow else first,
            found_session=machine.sessions[sessions[starts[shape.found]]][0],
            commit_before=last[2],
            commit_after=commit,
            size=size,
            low=low,
            high=high,
            before=before,
            now=now,
            sessions_since=len(sessions) - index,
        )


_MOMENT = 18 * 3600.0  # seconds from a moment's first session to its last: nightly sessions remain apart

_MEMORY = 30  # sessions whose median is a test's own level


def common_drifts(rates: Values) -> Values:
    """Return the common drift of each session, in log rate; NaN where too few tests show it.

    It is the median, over the tests, of each test's distance from its own level. A level is the median of the test's
    earlier sessions without their common drifts, so no later session is used. Both are medians: where noise is skewed,
    a mean in place of either would make the result drift away. The first session's common drift is 0.

    Args:
        rates: log rates, a row for each session, oldest first, and a column for each test; NaN where not measured.
    """
    drifts = np.full(len(rates), np.nan)
    kept = np.full((_MEMORY, rates.shape[1]), np.nan)
    counts = np.zeros(rates.shape[1], dtype=np.int64)
    now = 0.0
    for index, row in enumerate(rates):
        present = ~np.isnan(row)
        if present.sum() < MIN_TESTS:
            continue
        known = present & (counts > 0)
        if known.sum() >= MIN_TESTS:
            now = float(np.median(row[known] - _medians(kept[:, known], counts[known])))
        drifts[index] = now
        kept[counts[present] % _MEMORY, present] = row[present] - now
        counts[present] += 1
    return drifts


def _medians(kept: Values, counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Values:
    """Return each column's median; NaN, which sorts last, stands for a missing value."""
    ordered, filled = np.sort(kept, axis=0), np.minimum(counts, len(kept))
    columns = np.arange(kept.shape[1])
    middle: Values = (ordered[(filled - 1) // 2, columns] + ordered[filled // 2, columns]) / 2
    return middle
