"""Lasting changes in one series of log rates, found as the sessions come in: pure statistics, no dates and no names.

A series is read from its first session to its last, as a gate reads it, and a change that was found stays. After each
session a likelihood ratio test, with unknown levels and noise, asks whether the points since the last change have two
levels. Outliers count as `_FAR` standard deviations. docs/statistics.md has the reasons and the error rates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

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
        until = min(max(length + 1, length * 3 // 2), len(points))
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
    rough = _FAR * 1.4826 * float(np.median(np.abs(apart[:learn])))
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
