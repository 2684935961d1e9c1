"""Lasting changes in one series of log rates, found as the sessions come in, and their sizes and shapes.

Pure statistics, without dates and names: `alarms` finds the changes, `shapes` says how large each is and whether it
came at once or little by little.

A series is read from its first session to its last, as a gate reads it, and a change that was found stays. After each
session a likelihood ratio test, with unknown levels and noise, asks whether the points since the last change have two
levels. Outliers count as `_FAR` standard deviations. docs/statistics.md has the reasons and the error rates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_tfperf.core.throughput import SD_OF_MAD
from pytest_tfperf.judging.thresholds import quantile

Values: TypeAlias = NDArray[np.float64]

THRESHOLD = 4.7
"""In standard normal units; chosen in simulation, by false alarms a year (benchmarks/changes.py)."""

SMALLEST = 0.005
"""A change below 0.5 % is not worth a report, however sure it is."""

# Sessions after a change: it is not looked for at every session of the past, only at these distances.
_AFTER = np.array((3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512))
_LEAST_AFTER = int(_AFTER[0])
_LEAST_BEFORE = 5
_FAR = 2.5  # so that two bad sessions weigh 3.5 together, and never exceed the threshold
_CARRIED = 30  # points: the most that the noise before a change counts for the noise after it
_CORRELATION = 0.1  # of neighbouring sessions, before a series has shown its own
_MOST_CORRELATED = 0.5
_QUIETEST = 0.0005  # no throughput is known better than 0.05 %


@dataclass(frozen=True, slots=True)
class SeriesNoise:
    """The noise that earlier points lead to expect.

    Args:
        variance: of one point, with so many degrees of freedom.
        correlation: of neighbouring points.
    """

    variance: float = 0.0
    freedom: int = 0
    correlation: float = _CORRELATION


@dataclass(frozen=True, slots=True)
class Alarm:
    """A change as it was found.

    Args:
        first: index of the first point after the change, as far as it was known then.
        found: index of the point with which it was found.
        noise: of the points up to `found`.
    """

    first: int
    found: int
    noise: SeriesNoise


def alarms(values: Values) -> list[Alarm]:
    """The changes of a series, oldest first, each with no use of later points than `found`.

    Args:
        values: log rates, one for each session, oldest first.
    """
    all_found: list[Alarm] = []
    start, seen, noise = 0, 0, SeriesNoise()
    while (alarm := _next_alarm(values, start, seen, noise)) is not None:
        all_found.append(alarm)
        start, seen, noise = alarm.first, alarm.found + 1, alarm.noise
    return all_found


def _next_alarm(values: Values, start: int, seen: int, carried: SeriesNoise) -> Alarm | None:
    """The next change, of which `seen` points since the last one, at `start`, showed nothing.

    Middle and spread are learnt again whenever the stretch has grown by half, from no later points. Each length is
    tested once: with what was learnt again, it could find a change that the session itself did not report.
    """
    points = values[start:]
    least = length = max(_LEAST_BEFORE + _LEAST_AFTER, seen - start)
    while least <= len(points):
        until = min(length * 3 // 2, len(points))
        z, near, scale = _standardised(points[:until], learn=length)
        known = SeriesNoise(
            carried.variance / scale**2, carried.freedom, _correlation(_levelled(z[:length]), carried.correlation)
        )
        if (at := _first_split(z, near, least, known)) is not None:
            first, noise = _placed(z[:at], known)
            noise = SeriesNoise(noise.variance * scale**2, min(noise.freedom, _CARRIED), noise.correlation)
            return Alarm(start + first, start + at - 1, noise)
        length, least = until, until + 1
    return None


def _standardised(points: Values, learn: int) -> tuple[Values, Values, float]:
    """The points in standard deviations from the middle; what they add to a change's size; and the standard deviation.

    Middle and standard deviation are learnt from the first points.
    """
    apart = points - np.median(points[:learn])
    rough = _FAR * SD_OF_MAD * float(np.median(np.abs(apart[:learn])))
    scale = max(float(np.sqrt(np.mean(np.clip(apart[:learn], -rough, rough) ** 2))), _QUIETEST)
    most = max(_FAR * scale, 2 * SMALLEST)  # where noise is low, 2.5 standard deviations are less than the least size
    return np.clip(apart / scale, -_FAR, _FAR), np.clip(apart, -most, most), scale


def _levelled(z: Values) -> Values:
    """What the best split in two levels leaves: a change that was not found yet is no correlation of neighbours."""
    before, sums = np.arange(1, len(z)), np.cumsum(z)
    gains = (sums[:-1] - sums[-1] * before / len(z)) ** 2 / (before * (len(z) - before))
    return _apart(z, int(np.argmax(gains)) + 1)


def _apart(z: Values, first: int) -> Values:
    """The points apart from the means before and after the first point of a change."""
    return np.concatenate((z[:first] - z[:first].mean(), z[first:] - z[first:].mean()))


def _correlation(z: Values, carried: float) -> float:
    """Of neighbours, each apart from its level, drawn towards what was known before: few points say little."""
    products, squares = float(z[1:] @ z[:-1]), float(z @ z)
    own = products / squares + 3 / len(z) if squares > 0 else 0.0
    return min(max((len(z) * own + _CARRIED * carried) / (len(z) + _CARRIED), 0.0), _MOST_CORRELATED)


def _first_split(z: Values, near: Values, least: int, known: SeriesNoise) -> int | None:
    """The first length, from `least` on, at which the points until then split in two levels."""
    lengths = np.arange(least, len(z) + 1)[:, None]
    before = lengths - _AFTER
    is_long = before >= _LEAST_BEFORE
    before = np.where(is_long, before, 1)
    sums = np.concatenate(([0.0], np.cumsum(near)))
    sizes = (sums[lengths] - sums[before]) / (lengths - before) - sums[before] / before
    splits = is_long & (np.abs(sizes) >= SMALLEST) & (_scores(z, before, lengths, known) > THRESHOLD)
    return int(lengths[splits.any(axis=1)][0, 0]) if splits.any() else None


def _placed(z: Values, known: SeriesNoise) -> tuple[int, SeriesNoise]:
    """Where the points split best, and the noise that is left."""
    before = np.arange(_LEAST_BEFORE, len(z) - _LEAST_AFTER + 1)
    first = int(before[np.argmax(_scores(z, before, np.array(len(z)), known))])
    rest = _apart(z, first)
    degrees = len(z) - 2 + known.freedom
    variance = (float(rest @ rest) + known.freedom * known.variance) / degrees
    return first, SeriesNoise(variance, degrees, _correlation(rest, known.correlation))


def _scores(z: Values, before: NDArray[np.int64], length: NDArray[np.int64], known: SeriesNoise) -> Values:
    """How surely the first `length` points split after `before`, in standard normal units.

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
    """The variance of a mean of so many points, in variances of one, where neighbours are correlated (AR(1))."""
    apart = 1 - correlation
    return ((1 + correlation) / apart - 2 * correlation * (1 - correlation**points) / (points * apart**2)) / points


SLOW = 7
"""The fewest sessions that a slow change takes."""

_DRAWN_IN = 3.0  # standard deviations; farther points are drawn in
_LEAST_SPREAD = 1e-6
_GRID = 24  # candidates for the ends of a slow change, which are then searched between


@dataclass(frozen=True, slots=True)
class Shape:
    """One change in a series.

    Args:
        first: index of the first point after a step, or of a slow change.
        last: index of a slow change's last point; the same as `first` for a step.
        found: index of the point with which it was found.
        size, low, high: in log rate, with a 95 % confidence interval.
    """

    first: int
    last: int
    found: int
    size: float
    low: float
    high: float

    @property
    def is_slow(self) -> bool:
        """Whether it took several sessions."""
        return self.last > self.first


@dataclass(frozen=True, slots=True)
class _Slope:
    """Flat, then straight from the point before `first` to `last`, then flat; and what this leaves unexplained."""

    first: int
    last: int
    size: float
    squares: float
    variance: float  # of the size, in variances of one point


def shapes(values: Values, alarms: Sequence[Alarm]) -> list[Shape]:
    """The changes of a series, oldest first.

    Several steps the same way are one slow change where that fits better.

    Args:
        values: log rates, one for each session, oldest first.
        alarms: what was found in them.
    """
    if not alarms:
        return []
    edges = _places(values, [0, *(alarm.first for alarm in alarms), len(values)])
    levels, spread = _levels(values, edges), _DRAWN_IN * _spread(values, edges)
    near = levels + np.clip(values - levels, -spread, spread)
    rises = [bool(levels[edge] > levels[edge - 1]) for edge in edges[1:-1]]
    found: list[Shape] = []
    for _, run in groupby(range(len(alarms)), key=rises.__getitem__):
        found += _shapes_one_way(near, edges, list(run), alarms)
    return found


def _shapes_one_way(near: Values, edges: Sequence[int], run: Sequence[int], alarms: Sequence[Alarm]) -> Iterator[Shape]:
    """Of neighbouring alarms the same way: one slow change of all, or each by itself."""
    if (together := _slow(near, edges, run, alarms)) is not None:
        yield together
        return
    for index in run:
        yield _slow(near, edges, [index], alarms) or _step(near, edges, index, alarms[index])


def _places(values: Values, edges: Sequence[int]) -> list[int]:
    """The edges where two levels fit best; each outlier counts as `_DRAWN_IN` standard deviations at most."""
    placed, spread = list(edges), _spread(values, edges)
    for index in range(1, len(placed) - 1):
        start, middle, end = placed[index - 1 : index + 2]
        before, after = (
            np.minimum(((values[start:end] - np.median(level)) / spread) ** 2, _DRAWN_IN**2)
            for level in (values[start:middle], values[middle:end])
        )
        placed[index] = start + 1 + int(np.argmin(np.cumsum(before - after)[:-1]))
    return placed


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
    """With an interval that allows for the correlation of neighbours."""
    correlated = (1 + alarm.noise.correlation) / (1 - alarm.noise.correlation)
    half = quantile(max(freedom, 1), 0.025) * math.sqrt(variance * correlated)
    return Shape(first, last, alarm.found, size, size - half, size + half)


def _squares(pieces: Sequence[Values]) -> float:
    return math.fsum(float(piece.var()) * len(piece) for piece in pieces)


def _slow(near: Values, edges: Sequence[int], run: Sequence[int], alarms: Sequence[Alarm]) -> Shape | None:
    """The slow change in place of neighbouring steps, if it fits better than they do.

    The criterion is Schwarz's. A slope has four unknowns, two more than a level and a step, and each further step two.
    """
    start, end = edges[run[0]], edges[run[-1] + 2]
    points, count = near[start:end], end - start
    if count < SLOW + 2 or (slope := _best_slope(points)) is None:
        return None
    steps = _squares([near[a:b] for a, b in pairwise(edges[run[0] : run[-1] + 3])])
    gain = count * math.log((steps + _LEAST_SPREAD**2) / (slope.squares + _LEAST_SPREAD**2))
    if gain <= (4 - 2 * len(run)) * math.log(count):
        return None
    freedom = max(count - 4, 1)
    variance = slope.squares / freedom * slope.variance
    return _shape(start + slope.first, start + slope.last, alarms[run[0]], slope.size, variance, freedom)


def _best_slope(points: Values) -> _Slope | None:
    """Found on a coarse grid of starts and ends, which is then made finer around the best."""
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
    """The slope from one of `starts` to one of `ends` that leaves the least squares; None where all are too short."""
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
