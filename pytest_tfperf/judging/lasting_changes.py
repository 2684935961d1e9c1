"""Lasting changes over a history's sessions: of each test by itself, of its figures, and of the machine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.figure import Better
from pytest_tfperf.core.past import ChangeKind, LastingChange, PastResult, moment
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.judging.change_points import Shape, Values, alarms, shapes
from pytest_tfperf.judging.common_drift import MIN_TESTS

_Series = tuple[str, Key]
"""A test's node id, and the key of its measurements."""


@dataclass(frozen=True, slots=True)
class _Machine:
    """The first result of each session of one machine, oldest first; and each series, by the sessions' indices."""

    name: str
    sessions: Sequence[PastResult]
    series: Mapping[_Series, Mapping[int, PastResult]]


def changes_of(results: Iterable[PastResult]) -> list[LastingChange]:
    """Return the changes of each machine and of each of its tests, oldest first.

    The drift common to all tests of a session is subtracted from each test's series, and is a series of its own: the
    machine's. Both need eight tests in a session; smaller sessions are left out if most measurements are in sessions of
    eight tests or more. A figure is a series without a common drift.

    Args:
        results: of any machines and tests, the results of each machine oldest first. Results that are INVALID, were
            slowed on purpose or are in another unit than the latest don't count. Of a test's results in one session the
            last decided result counts.
    """
    by_machine: dict[str, list[PastResult]] = {}
    for result in results:
        if counts(result):
            by_machine.setdefault(result.machine, []).append(result)
    changes = [change for name, of_machine in by_machine.items() for change in _of_machine(_arranged(name, of_machine))]
    return sorted(changes, key=lambda change: moment(change.time))


def counts(result: PastResult) -> bool:
    """Whether a result says something about the level of its series."""
    is_known = math.isfinite(result.value) and (result.value > 0 or result.figure is not None)
    return is_known and not result.is_slowed_on_purpose and result.outcome is not Outcome.INVALID


def _arranged(name: str, results: Sequence[PastResult]) -> _Machine:
    sessions: dict[str, PastResult] = {}
    for result in results:
        sessions.setdefault(result.session, result)
    indices = {session: index for index, session in enumerate(sessions)}
    series: dict[_Series, dict[int, PastResult]] = {}
    for result in results:
        points = series.setdefault((result.test, result.key), {})
        index = indices[result.session]
        if result.outcome or index not in points or not points[index].outcome:
            points[index] = result
    return _Machine(name, list(sessions.values()), {test: _of_one_unit(points) for test, points in series.items()})


def _of_one_unit(points: Mapping[int, PastResult]) -> dict[int, PastResult]:
    """Keep the results in the unit of the latest, read at the same place; oldest first."""
    latest = points[max(points)]
    return {index: points[index] for index in sorted(points) if points[index].is_like(latest)}


def _of_machine(machine: _Machine) -> Iterator[LastingChange]:
    drifts = _drifts(machine)
    known = [int(index) for index in np.flatnonzero(~np.isnan(drifts))]
    if known:
        points = [machine.sessions[index] for index in known]
        yield from (_change(shape, points, machine.name) for shape in _shapes_in(drifts[known]))
    else:
        drifts = np.zeros(len(machine.sessions))
    for series, measured in machine.series.items():
        if series[1].figure:
            yield from _of_figure(list(measured.values()), machine.name, series)
            continue
        indices = [index for index in measured if not math.isnan(drifts[index])]
        rates = np.log([measured[index].value for index in indices]) - drifts[indices]
        points = [measured[index] for index in indices]
        yield from (_change(shape, points, machine.name, series) for shape in _shapes_in(rates))


def _of_figure(points: Sequence[PastResult], machine: str, series: _Series) -> Iterator[LastingChange]:
    """Yield the changes of a figure that exceed its absolute tolerance; figures have no drift in common."""
    values = np.array([point.value for point in points])
    is_log = bool((values > 0).all())
    unit = 1.0 if is_log else float(np.median(np.abs(values))) or float(np.abs(values).max())
    least = (points[-1].figure and points[-1].figure.absolute) or 0.0
    for shape in _shapes_in(np.log(values) if is_log else values / unit) if unit else ():
        level = float(np.median(values[: shape.first][-LEVEL:]))
        change = _change(shape, points, machine, series)
        if not is_log:  # no logarithm of 0 or less; as a fraction of the level before
            scale = unit / (abs(level) or unit)
            change = replace(change, size=shape.size * scale, low=shape.low * scale, high=shape.high * scale)
        if abs(change.size) * (abs(level) or unit) > least:
            yield change


def _drifts(machine: _Machine) -> Values:
    """Return the machine's drift in each session; all NaN where most measurements are in sessions of few tests."""
    series = [points for (_, key), points in machine.series.items() if not key.figure]
    rates = np.full((len(machine.sessions), len(series)), np.nan)
    for column, points in enumerate(series):
        rates[list(points), column] = np.log([point.value for point in points.values()])
    drifts = common_drifts(rates)
    measured = (~np.isnan(rates)).sum(axis=1)
    has_most = 2 * measured[~np.isnan(drifts)].sum() > measured.sum()
    return drifts if has_most else np.full(len(drifts), np.nan)


def _shapes_in(values: Values) -> list[Shape]:
    return shapes(values, alarms(values))


def _change(shape: Shape, points: Sequence[PastResult], machine: str, series: _Series | None = None) -> LastingChange:
    first = points[shape.first]
    slow = ChangeKind.DECLINE if shape.size < 0 else ChangeKind.RISE
    return LastingChange(
        machine=machine,
        test=series[0] if series else None,
        key=series[1] if series else None,
        kind=slow if shape.is_slow else ChangeKind.STEP,
        session=first.session,
        time=first.time,
        last_session=points[shape.last].session,
        found_session=points[shape.found].session,
        commit_before=points[shape.first - 1].commit,
        commit_after=first.commit,
        size=math.expm1(shape.size),
        low=math.expm1(shape.low),
        high=math.expm1(shape.high),
        sessions_since=len(points) - shape.first,
        better=first.better if series else Better.HIGHER,
    )


LEVEL = 10
"""Sessions whose median is a figure's level before a change."""

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
