"""The size of each change in a series, and whether it was a step or a slow change, by all points that there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from pytest_tfperf.judging.change_points import Alarm, Values
from pytest_tfperf.judging.thresholds import quantile

SLOW = 7
"""The fewest sessions that a slow change takes."""

_FAR = 3.0  # standard deviations; farther points are drawn in
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
class _Fit:
    """A model of a stretch: where it changes, how well it fits, and what it says of the size."""

    first: int
    last: int
    squares: float
    size: float
    error: float


def shapes(values: Values, alarms: Sequence[Alarm]) -> list[Shape]:
    """The changes of a series, oldest first.

    Several steps the same way are one slow change where that fits better.

    Args:
        values: log rates, one for each session, oldest first.
        alarms: what was found in them.
    """
    if not alarms:
        return []
    edges = [0, *(alarm.first for alarm in alarms), len(values)]
    levels = np.concatenate([np.full(b - a, np.median(values[a:b])) for a, b in pairwise(edges)])
    middles = [levels[edge] for edge in edges[:-1]]
    apart = values - levels
    spread = _FAR * 1.4826 * float(np.median(np.abs(apart)))
    near = levels + np.clip(apart, -spread, spread)

    def stretch(first: int, last: int) -> tuple[int, Values]:
        return edges[first], near[edges[first] : edges[last + 2]]

    found: list[Shape] = []
    for _, run in groupby(range(len(alarms)), key=lambda index: middles[index + 1] > middles[index]):
        chosen = list(run)
        cuts = [alarms[index].first - edges[chosen[0]] for index in chosen]
        start, points = stretch(chosen[0], chosen[-1])
        together = _slow_change(points, cuts, alarms[chosen[0]].noise.correlation)
        if together is not None:
            found.append(_shape(together, start, alarms[chosen[0]].found, len(points)))
            continue
        found += [_alone(*stretch(index, index), alarms[index]) for index in chosen]
    return found


def _alone(start: int, points: Values, alarm: Alarm) -> Shape:
    correlation = alarm.noise.correlation
    fit = _slow_change(points, [alarm.first - start], correlation) or _step(points, correlation)
    return _shape(fit, start, alarm.found, len(points))


def _shape(fit: _Fit, start: int, found: int, points: int) -> Shape:
    half = quantile(points - 2, 0.025) * fit.error
    return Shape(start + fit.first, start + fit.last, found, fit.size, fit.size - half, fit.size + half)


def _step(points: Values, correlation: float) -> _Fit:
    """The best split in two levels."""
    ends = np.arange(1, len(points))
    fits = points.astype(float)
    sums, all_points = np.cumsum(fits)[:-1], len(points)
    left, right = sums / ends, (fits.sum() - sums) / (all_points - ends)
    gains = ends * (all_points - ends) / all_points * (left - right) ** 2
    best = int(np.argmax(gains))
    split = best + 1
    squares = max(float(fits.var()) * all_points - float(gains[best]), 0.0)
    inflated = (1 + correlation) / (1 - correlation) * squares / max(all_points - 2, 1)
    error = math.sqrt(inflated * (1 / split + 1 / (all_points - split)))
    return _Fit(split, split, squares, float(right[best] - left[best]), error)


def _slow_change(points: Values, cuts: Sequence[int], correlation: float) -> _Fit | None:
    """The best slope between two levels, if it fits better than the steps at `cuts` (Schwarz's criterion)."""
    count = len(points)
    if count < SLOW + 2:
        return None
    pieces = np.split(points, cuts) if len(cuts) > 1 else np.split(points, [_step(points, correlation).first])
    steps = sum(float(piece.var()) * len(piece) for piece in pieces)
    starts = ends = np.unique(np.linspace(0, count - 1, _GRID).astype(int))
    best = _best_slope(points, starts, ends)
    spacing = count // _GRID
    while spacing and best is not None:
        spacing //= 2
        near = np.arange(-2, 3) * max(spacing, 1)
        best = _best_slope(points, _inside(best.first - 1 + near, count), _inside(best.last + near, count))
    if best is None:
        return None
    costs = (2 * len(cuts) + 1) - 4 - (1 if len(cuts) == 1 else 0)
    if count * math.log((steps + 1e-12) / (best.squares + 1e-12)) + costs * math.log(count) <= 0:
        return None
    return _Fit(
        best.first, best.last, best.squares, best.size, best.error * math.sqrt((1 + correlation) / (1 - correlation))
    )


def _inside(indices: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    return np.unique(np.clip(indices, 0, count - 1))


def _best_slope(points: Values, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> _Fit | None:
    """Flat until one of `starts`, then straight to one of `ends`, then flat: the least squares of all."""
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
    left = max(float(squares[best]), 0.0)
    error = math.sqrt(left / max(len(points) - 4, 1) / float(spreads[best]))
    return _Fit(int(start[best, 0]) + 1, int(end[best, 0]), left, float(sizes[best]), error)
