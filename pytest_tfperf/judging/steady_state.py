"""The steady state of a run: which of its first windows still belong to the warm-up, and whether it ever settles."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from pytest_tfperf.core.disturbance import Disturbance, DisturbanceKind
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.throughput import scatter

LEAST_WINDOWS = 20
"""With fewer windows a drift can't be separated from noise, so the run counts as steady."""

_MOST_DISCARDED = 1 / 3  # a run that settles later than that has not settled
# A noisy machine must still get a result, so only faults that would change a verdict count: a drift or a step of 10 %,
# or two modes 10 % apart, each far beyond the windows' own scatter.
_LEAST_SHIFT = math.log(1.10)
_SCATTERS = 5.0
_LEAST_SHARE = 0.25  # of the windows in the smaller of two modes


def in_steady_state(run: Run) -> Run:
    """Count the windows before a run's steady state as warm-up; the run is disturbed if it never became steady."""
    cut = settled_from(run.windows, fetches=run.fetches)
    windows = run.windows[cut:]
    why = why_not_steady(windows, fetches=run.fetches)
    return replace(run, warmup=run.warmup + run.windows[:cut], windows=windows, disturbance=why)


def settled_from(windows: Sequence[Window], *, fetches: bool = False) -> int:
    """Return how many first windows to discard to minimise MSER, the squared standard error of the rest's mean.

    White 1997, "An effective truncation heuristic for bias reduction in simulation output". Zero for few windows, and
    where the first third is no different from the rest.
    """
    rates = _rates(windows)
    if len(rates) < LEAST_WINDOWS:
        return 0
    best = _least_mser(rates)
    early, rest = rates[:best], rates[best:]
    if not early:
        return 0
    faster = statistics.median(early) - statistics.median(rest)
    # MSER alone would discard a few windows of pure noise in most runs. A rate that falls by a tenth was no warm-up,
    # unless batches lay ready at first.
    if abs(faster) < 3 * scatter(rest) or (faster > _LEAST_SHIFT and not fetches):
        return 0
    return best


def why_not_steady(windows: Sequence[Window], *, fetches: bool = False) -> Disturbance | None:
    """Return why a run's timed windows are not a steady state; None where they are.

    Steps that fetch their batches may well have two speeds: with a batch that lay ready, and without.
    """
    rates = _rates(windows)
    if len(rates) < LEAST_WINDOWS:
        return None
    return _drift(rates) or (None if fetches else _two_modes(rates))


def _drift(rates: Sequence[float]) -> Disturbance | None:
    """Return a change from the first to the last third."""
    third = len(rates) // 3
    parts = [rates[:third], rates[third:-third], rates[-third:]]
    first, middle, last = (statistics.median(part) for part in parts)
    within = statistics.median(scatter(part) for part in parts)
    change = last - first
    if abs(change) < max(_LEAST_SHIFT, _SCATTERS * within):
        return None
    if not min(first, last) <= middle <= max(first, last):
        return None
    return Disturbance(DisturbanceKind.NOT_STEADY, math.expm1(change))


def _two_modes(rates: Sequence[float]) -> Disturbance | None:
    """Return the widest gap in the sorted windows, with enough windows on either side and little scatter within."""
    ordered = sorted(rates)
    least = math.ceil(_LEAST_SHARE * len(ordered))
    gaps = [(ordered[i] - ordered[i - 1], i) for i in range(least, len(ordered) - least + 1)]
    gap, split = max(gaps)
    low, high = ordered[:split], ordered[split:]
    apart = statistics.median(high) - statistics.median(low)
    if gap < max(_LEAST_SHIFT / 2, _SCATTERS * max(scatter(low), scatter(high))) or apart < _LEAST_SHIFT:
        return None
    return Disturbance(DisturbanceKind.NOT_STEADY, math.expm1(-apart), windows=(len(low), len(high)))


def _rates(windows: Sequence[Window]) -> list[float]:
    return [math.log(w.steps / w.seconds) for w in windows]


def _least_mser(rates: Sequence[float]) -> int:
    """Return the cut with the least variance / count of the rest, from running sums because it is called often."""
    count, total, squares = 0, 0.0, 0.0
    scores: list[tuple[float, int]] = []
    middle = statistics.median(rates)  # sums of squares lose their digits far from zero
    for cut in range(len(rates) - 1, -1, -1):
        count, total, squares = count + 1, total + rates[cut] - middle, squares + (rates[cut] - middle) ** 2
        if cut <= len(rates) * _MOST_DISCARDED:
            scores.append(((squares / count - (total / count) ** 2) / count, cut))
    return min(scores)[1]
