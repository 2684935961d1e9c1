"""Lasting changes in one series of log rates, detected as the sessions come in, and their sizes and shapes.

Pure statistics, without dates and names: `alarms` detects the changes, `shapes` says how large each change is and
whether it came at once or gradually.

A series is read from its first session to its last, as a gate reads it, and a change, once reported, is never
withdrawn. After each session a likelihood ratio test, with unknown levels and noise, asks whether the points since the
last change have two levels. Outliers count as `_FAR` standard deviations, and so many points must lie beyond the middle
of both levels as chance would not put there. docs/statistics.md has the reasons and the error rates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_tfperf.core.throughput import SD_OF_MAD
from pytest_tfperf.judging.noise import quantile

Values: TypeAlias = NDArray[np.float64]

THRESHOLD = 4.7
"""For one series, in standard normal units; chosen in simulation, by false alarms a year (benchmarks/changes.py)."""

SMALLEST = 0.005
"""A change below 0.5 % is not worth a report, however sure it is."""

# Sessions after a change: only splits at these distances from the newest session are tested.
_AFTER = np.array((5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512))
_LEAST_AFTER = int(_AFTER[0])
_LEAST_BEFORE = 5
_FAR = 2.5  # so that two bad sessions weigh 3.5 together, and never exceed the threshold
_CARRIED = 30  # points: the largest weight of the noise before a change in the noise after it
_CORRELATION = 0.1  # of neighbouring sessions, assumed until a series is long enough to show its own
_MOST_CORRELATED = 0.5
_QUIETEST = 0.0005  # no throughput is known better than 0.05 %


@dataclass(frozen=True, slots=True)
class SeriesNoise:
    """The noise that is expected from earlier points."""

    variance: float = 0.0  # of one point, estimated with `freedom` degrees of freedom
    freedom: int = 0
    correlation: float = _CORRELATION  # of neighbouring points


@dataclass(frozen=True, slots=True)
class Alarm:
    """A change at the time of its detection."""

    first: int  # index of the first point after the change, as estimated then
    found: int  # index of the point at which the change was detected
    noise: SeriesNoise  # of the points up to `found`


def alarms(values: Values, tests: int = 1) -> list[Alarm]:
    """Return the changes of a series, oldest first; each uses no later points than its `found`.

    Args:
        values: log rates, one for each session, oldest first.
        tests: the series of the machine, which share the false-alarm rate.
    """
    threshold = math.sqrt(THRESHOLD**2 + 2 * math.log(tests))
    detected: list[Alarm] = []
    start, tested, noise = 0, 0, SeriesNoise()
    while (alarm := _next_alarm(values, start, tested, noise, threshold)) is not None:
        detected.append(alarm)
        start, tested, noise = alarm.first, alarm.found + 1, alarm.noise
    return detected


def _next_alarm(values: Values, start: int, tested: int, carried: SeriesNoise, threshold: float) -> Alarm | None:
    """Return the next change after that at `start`; the points before index `tested` have shown no further change.

    Median and spread are estimated again whenever the series since `start` has grown by half, without later points.
    Each length is tested once: with the later estimates it could show a change that its own session did not report.
    """
    points = values[start:]
    least = length = max(_LEAST_BEFORE + _LEAST_AFTER, tested - start)
    while least <= len(points):
        until = min(length * 3 // 2, len(points))
        z, near, scale = _standardised(points[:until], learn=length)
        known = SeriesNoise(
            carried.variance / scale**2, carried.freedom, _correlation(_levelled(z[:length]), carried.correlation)
        )
        for at in _splits(z, near, least, known, threshold):
            first, noise = _placed(z[:at], known)
            if _count_score(points[:at], first) > threshold:
                noise = SeriesNoise(noise.variance * scale**2, min(noise.freedom, _CARRIED), noise.correlation)
                return Alarm(start + first, start + at - 1, noise)
        length, least = until, until + 1
    return None


def _standardised(points: Values, learn: int) -> tuple[Values, Values, float]:
    """Return the points in standard deviations from the median, their clipped distances, and the standard deviation.

    Median and standard deviation are estimated from the first `learn` points. The size of a change is computed from the
    distances.
    """
    apart = points - np.median(points[:learn])
    rough = _FAR * SD_OF_MAD * float(np.median(np.abs(apart[:learn])))
    scale = max(float(np.sqrt(np.mean(np.clip(apart[:learn], -rough, rough) ** 2))), _QUIETEST)
    most = max(_FAR * scale, 2 * SMALLEST)  # where noise is low, 2.5 standard deviations are less than the least size
    return np.clip(apart / scale, -_FAR, _FAR), np.clip(apart, -most, most), scale


def _levelled(z: Values) -> Values:
    """Subtract the best split into two levels: a change that is not detected yet is no correlation of neighbours."""
    before, sums = np.arange(1, len(z)), np.cumsum(z)
    gains = (sums[:-1] - sums[-1] * before / len(z)) ** 2 / (before * (len(z) - before))
    return _apart(z, int(np.argmax(gains)) + 1)


def _apart(z: Values, first: int) -> Values:
    """Subtract the means before the first point of a change, and from it on."""
    return np.concatenate((z[:first] - z[:first].mean(), z[first:] - z[first:].mean()))


def _correlation(z: Values, carried: float) -> float:
    """Return the correlation of neighbours, drawn towards the earlier estimate, because few points say little."""
    products, squares = float(z[1:] @ z[:-1]), float(z @ z)
    own = products / squares + 3 / len(z) if squares > 0 else 0.0
    return min(max((len(z) * own + _CARRIED * carried) / (len(z) + _CARRIED), 0.0), _MOST_CORRELATED)


def _splits(z: Values, near: Values, least: int, known: SeriesNoise, threshold: float) -> list[int]:
    """Return the lengths, from `least` on, at which the points split into two levels."""
    lengths = np.arange(least, len(z) + 1)[:, None]
    before = lengths - _AFTER
    is_long = before >= _LEAST_BEFORE
    before = np.where(is_long, before, 1)
    sums = np.concatenate(([0.0], np.cumsum(near)))
    sizes = (sums[lengths] - sums[before]) / (lengths - before) - sums[before] / before
    splits = is_long & (np.abs(sizes) >= SMALLEST) & (_scores(z, before, lengths, known) > threshold)
    found: list[int] = lengths[splits.any(axis=1), 0].tolist()
    return found


def _count_score(points: Values, first: int) -> float:
    """Return how significantly the points from `first` on lie beyond the middle of both levels, in normal units.

    The root of the deviance, from the share of earlier points that lie there. It counts points and not distances: a
    series that often has bad points must have them for longer until they are a change.
    """
    before, after = float(np.median(points[:first])), float(np.median(points[first:]))
    beyond = (points - (before + after) / 2) * (after - before) > 0
    expected = (int(beyond[:first].sum()) + 1) / (first + 2)
    count, found = len(points) - first, int(beyond[first:].sum())
    if found <= expected * count:
        return 0.0
    rest = (count - found) * math.log((count - found) / count / (1 - expected)) if found < count else 0.0
    return math.sqrt(2 * (found * math.log(found / count / expected) + rest))


def _placed(z: Values, known: SeriesNoise) -> tuple[int, SeriesNoise]:
    """Return the index at which the points split best, and the noise of the two levels."""
    before = np.arange(_LEAST_BEFORE, len(z) - _LEAST_AFTER + 1)
    first = int(before[np.argmax(_scores(z, before, np.array(len(z)), known))])
    rest = _apart(z, first)
    degrees = len(z) - 2 + known.freedom
    variance = (float(rest @ rest) + known.freedom * known.variance) / degrees
    return first, SeriesNoise(variance, degrees, _correlation(rest, known.correlation))


def _scores(z: Values, before: NDArray[np.int64], length: NDArray[np.int64], known: SeriesNoise) -> Values:
    """Return how significantly the first `length` points split after `before`, in standard normal units.

    Student's t of the difference, with Wallace's transformation to a normal value.
    """
    sums, squares = (np.concatenate(([0.0], np.cumsum(x))) for x in (z, z * z))
    left, right = before, length - before
    mean_left, mean_right = sums[left] / left, (sums[length] - sums[left]) / right
    rest = squares[length] - left * mean_left**2 - right * mean_right**2
    degrees = length - 2 + known.freedom
    pooled = np.maximum((rest + known.freedom * known.variance) / degrees, 1e-4)
    variance = pooled * (_of_mean(left, known.correlation) + _of_mean(right, known.correlation))
    t_squared = (mean_right - mean_left) ** 2 / variance
    normal: Values = np.sqrt(degrees * np.log1p(t_squared / degrees)) * (8 * degrees + 1) / (8 * degrees + 3)
    return normal


def _of_mean(points: NDArray[np.int64], correlation: float) -> Values:
    """Return the variance of the mean of this many correlated points (AR(1)), in variances of one point."""
    apart = 1 - correlation
    return ((1 + correlation) / apart - 2 * correlation * (1 - correlation**points) / (points * apart**2)) / points


LATEST = 5
"""The latest points, by whose median a change lasts or is over."""

LEVEL = 10
"""The most points whose median is the level before a change."""

SLOW = 10
"""The fewest sessions that a slow change takes: more than a week if they are 18 hours apart."""

_CLIPPED_AT = 3.0  # standard deviations; farther points count as so many
_LEAST_SPREAD = 1e-6
_GRID = 24  # candidates for the ends of a slow change, which are then searched between


@dataclass(frozen=True, slots=True)
class Shape:
    """One change in a series."""

    first: int  # index of the first point after a step, or of a slow change
    last: int  # index of a slow change's last point; the same as `first` for a step
    found: int  # index of the point at which the change was detected
    size: float  # in log rate; `low` to `high` is its 95 % confidence interval
    low: float
    high: float
    before: float = 0.0  # the level before it
    now: float = 0.0  # the level since the last change; where the latest points are nearer to `before`, their median

    @property
    def is_slow(self) -> bool:
        """Whether the change took several sessions."""
        return self.last > self.first


@dataclass(frozen=True, slots=True)
class _Slope:
    """A flat line, a straight slope from the point before `first` to `last`, a flat line; and the residual squares."""

    first: int
    last: int
    size: float
    squares: float
    variance: float  # of the size, in variances of one point


def shapes(values: Values, alarms: Sequence[Alarm]) -> list[Shape]:
    """Return the changes of a series, oldest first.

    Several steps in one direction become one slow change where it fits better.

    Args:
        values: log rates, one for each session, oldest first.
        alarms: the changes detected in them.
    """
    if not alarms:
        return []
    edges = _moved_edges(values, alarms)
    levels, spread = _levels(values, edges), _CLIPPED_AT * _spread(values, edges)
    near = levels + np.clip(values - levels, -spread, spread)
    rises = [bool(levels[edge] > levels[edge - 1]) for edge in edges[1:-1]]
    changes: list[Shape] = []
    for _, run in groupby(range(len(alarms)), key=rises.__getitem__):
        changes += _shapes_one_way(near, edges, list(run), alarms)
    return [*_with_levels(values, changes)]


def _with_levels(values: Values, changes: Sequence[Shape]) -> Iterator[Shape]:
    since = float(np.median(values[min(changes[-1].last, len(values) - LATEST) :]))
    latest = float(np.median(values[-LATEST:]))
    start = 0
    for change in changes:
        start = min(start, max(change.first - LATEST, 0))  # the course of a slow change may overlap with the next
        before = float(np.median(values[start : change.first][-LEVEL:]))
        is_back = abs(latest - before) < abs(latest - since)
        yield replace(change, before=before, now=latest if is_back else since)
        start = change.last


def _shapes_one_way(near: Values, edges: Sequence[int], run: Sequence[int], alarms: Sequence[Alarm]) -> Iterator[Shape]:
    """Yield one slow change for all of these neighbouring alarms in one direction, or a change for each of them."""
    if (together := _slow(near, edges, run, alarms)) is not None:
        yield together
        return
    for index in run:
        yield _slow(near, edges, [index], alarms) or _step(near, edges, index, alarms[index])


def _moved_edges(values: Values, alarms: Sequence[Alarm]) -> list[int]:
    """Return the start, the place of each change where two levels fit best, not after its detection, and the end."""
    placed = [0, *(alarm.first for alarm in alarms), len(values)]
    for index, alarm in enumerate(alarms, start=1):
        start, middle, end = placed[index - 1 : index + 2]
        before, after = float(np.median(values[start:middle])), float(np.median(values[middle:end]))
        placed[index] = start + split(values[start : min(end, alarm.found + 1)], before, after)
    return placed


def split(values: Values, before: float, after: float) -> int:
    """Return the index, from 1 on, at which a step between two levels fits best.

    A value beyond a level counts as that level: if it were an outlier from both, it could stand on either side, and the
    step would be dated to the session that did the opposite.
    """
    share = np.clip((values - before) / ((after - before) or 1.0), 0, 1)
    return int(np.argmin(np.cumsum(2 * share - 1)[:-1])) + 1


def _levels(values: Values, edges: Sequence[int]) -> Values:
    return np.concatenate([np.full(b - a, np.median(values[a:b])) for a, b in pairwise(edges)])


def _spread(values: Values, edges: Sequence[int]) -> float:
    return max(SD_OF_MAD * float(np.median(np.abs(values - _levels(values, edges)))), _LEAST_SPREAD)


def _step(near: Values, edges: Sequence[int], index: int, alarm: Alarm) -> Shape:
    start, middle, end = edges[index : index + 3]
    before, after = near[start:middle], near[middle:end]
    variance = _squares([before, after]) / max(end - start - 2, 1) * (1 / len(before) + 1 / len(after))
    return _shape(middle, middle, alarm, float(after.mean() - before.mean()), variance, end - start - 2)


def _shape(first: int, last: int, alarm: Alarm, size: float, variance: float, freedom: int) -> Shape:
    """Return a change with an interval that allows for the correlation of neighbours."""
    correlated = (1 + alarm.noise.correlation) / (1 - alarm.noise.correlation)
    half = quantile(max(freedom, 1), 0.025) * math.sqrt(variance * correlated)
    return Shape(first, last, alarm.found, size, size - half, size + half)


def _squares(pieces: Sequence[Values]) -> float:
    return math.fsum(float(piece.var()) * len(piece) for piece in pieces)


def _slow(near: Values, edges: Sequence[int], run: Sequence[int], alarms: Sequence[Alarm]) -> Shape | None:
    """Return the slow change that fits better than neighbouring steps, by Schwarz's criterion; None if none does.

    A slope has four parameters, a level and a step have two, and each further step adds two.
    """
    start, end = edges[run[0]], edges[run[-1] + 2]
    points, count = near[start:end], end - start
    if count < SLOW + 2 or (slope := _best_slope(points)) is None or start + slope.first > alarms[run[0]].found:
        return None
    steps = _squares([near[a:b] for a, b in pairwise(edges[run[0] : run[-1] + 3])])
    gain = count * math.log((steps + _LEAST_SPREAD**2) / (slope.squares + _LEAST_SPREAD**2))
    if gain <= (4 - 2 * len(run)) * math.log(count):
        return None
    freedom = max(count - 4, 1)
    variance = slope.squares / freedom * slope.variance
    return _shape(start + slope.first, start + slope.last, alarms[run[0]], slope.size, variance, freedom)


def _best_slope(points: Values) -> _Slope | None:
    """Search a coarse grid of starts and ends, which is then made finer around the best slope."""
    count = len(points)
    grid = np.unique(np.linspace(0, count - 1, _GRID).astype(int))
    best, spacing = _best_of(points, grid, grid), count // _GRID
    while best is not None and spacing > 0:
        spacing //= 2
        near = np.arange(-2, 3) * max(spacing, 1)
        best = _best_of(points, _inside(best.first - 1 + near, count), _inside(best.last + near, count))
    return best


def _inside(indices: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    return np.unique(np.clip(indices, 0, count - 1))


def _best_of(points: Values, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> _Slope | None:
    """Return the slope, from any of `starts` to any of `ends`, with the least squares; None if all are too short."""
    pairs = [(a, b) for a in starts for b in ends if b - a >= SLOW]
    if not pairs:
        return None
    start, end = (np.array(side)[:, None] for side in zip(*pairs, strict=True))
    slopes = np.clip((np.arange(len(points)) - start) / (end - start), 0, 1)
    slopes -= slopes.mean(axis=1, keepdims=True)
    apart = points - points.mean()
    spreads = (slopes**2).sum(axis=1)
    sizes = slopes @ apart / spreads
    squares = float(apart @ apart) - sizes**2 * spreads
    best = int(np.argmin(squares))
    return _Slope(
        first=int(start[best, 0]) + 1,
        last=int(end[best, 0]),
        size=float(sizes[best]),
        squares=max(float(squares[best]), 0.0),
        variance=1 / float(spreads[best]),
    )
