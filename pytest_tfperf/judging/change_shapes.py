"""The size of each change in a series, and whether it was a step or a slow change, by all points that there are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from pytest_tfperf.judging.change_points import Alarm, Values
from pytest_tfperf.judging.thresholds import quantile

SLOW = 7
"""The fewest sessions that a slow change takes."""

_FAR = 3.0  # standard deviations; farther points are drawn in
_QUIETEST = 1e-6
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
    edges = _placed(values, [0, *(alarm.first for alarm in alarms), len(values)])
    levels, spread = _levels(values, edges), _FAR * _spread(values, edges)
    near = levels + np.clip(values - levels, -spread, spread)
    rises = [bool(levels[edge] > levels[edge - 1]) for edge in edges[1:-1]]
    found: list[Shape] = []
    for _, run in groupby(range(len(alarms)), key=rises.__getitem__):
        found += _shapes_one_way(near, edges, list(run), alarms)
    return found


def _shapes_one_way(near: Values, edges: Sequence[int], run: Sequence[int], alarms: Sequence[Alarm]) -> Iterator[Shape]:
    """Of neighbouring alarms the same way: one slow change of all, or each by itself."""
    if len(run) > 1 and (together := _slow(near, edges, run, alarms)) is not None:
        yield together
        return
    for index in run:
        yield _slow(near, edges, [index], alarms) or _step(near, edges, index, alarms[index])


def _placed(values: Values, edges: Sequence[int]) -> list[int]:
    """The edges where two levels fit best; each outlier counts as `_FAR` standard deviations at most."""
    placed, spread = list(edges), _spread(values, edges)
    for index in range(1, len(placed) - 1):
        start, middle, end = placed[index - 1 : index + 2]
        before, after = (
            np.minimum(((values[start:end] - np.median(level)) / spread) ** 2, _FAR**2)
            for level in (values[start:middle], values[middle:end])
        )
        placed[index] = start + 1 + int(np.argmin(np.cumsum(before - after)[:-1]))
    return placed


def _levels(values: Values, edges: Sequence[int]) -> Values:
    return np.concatenate([np.full(b - a, np.median(values[a:b])) for a, b in pairwise(edges)])


def _spread(values: Values, edges: Sequence[int]) -> float:
    return max(1.4826 * float(np.median(np.abs(values - _levels(values, edges)))), _QUIETEST)


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
    gain = count * math.log((steps + _QUIETEST**2) / (slope.squares + _QUIETEST**2))
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
