"""Recognises rates that are averages since the start, which hide most of a change."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

_LEAST_READINGS = 80  # from which a running average can be told by its noise
_LEAST_OF_A_START = 10  # and by the time that the program's start took
_LEAST_CHANGE = 0.03
_LEAST_OF_A_THIRD = 3  # readings
_ERRORS = 3.0
_CLOCKS = 0.01  # deviation of what a recent rate and the time of its steps make of a step, by when lines are read
_ALIKE = (0.6, 1.6)  # of the later half's slope and that of all
_MOST_OF_THE_CHANGE = 0.05  # that the start does not account for


def is_running_average(rates: Sequence[float], units_per_step: Sequence[float] = ()) -> bool:
    """Whether successive rates look like averages since the first one.

    Args:
        rates: as they were printed.
        units_per_step: what they make of the time between their steps, where that is known.
    """
    if (third := len(units_per_step) // 3) >= _LEAST_OF_A_THIRD:
        units = [math.log(each) for each in units_per_step]
        if statistics.pstdev(units) < _CLOCKS:
            return False  # whatever they are, they are right
        # A recent rate changes as the time between steps does, whatever the reason. An average does not.
        if _differ(units[:third], units[-third:]):
            return True
    return contains_a_start(rates) or averages_noise(rates)


def _differ(first: Sequence[float], last: Sequence[float]) -> bool:
    """Whether two series of logarithms differ by more than their errors."""
    change = abs(statistics.fmean(last) - statistics.fmean(first))
    error = math.sqrt(statistics.variance(first) / len(first) + statistics.variance(last) / len(last))
    return change > _LEAST_CHANGE and change > _ERRORS * error


def contains_a_start(rates: Sequence[float]) -> bool:
    """Whether the start's time is spread over ever more steps: the k-th average takes a + b/k seconds for a unit.

    The first reading may be of the first step alone, and so is not one of them.
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
    # What settles after a cold start has done so in the later half; of a small change noise hides that.
    if change > line.intercept and not _ALIKE[0] < later.slope / line.slope < _ALIKE[1]:
        return False
    left = [each - line.intercept - line.slope * share for share, each in zip(shares, times, strict=True)]
    return statistics.pstdev(left) < _MOST_OF_THE_CHANGE * statistics.pstdev(times)


def averages_noise(rates: Sequence[float]) -> bool:
    """Whether noise is averaged, ever more of it.

    The k-th average differs from the one before by a k-th of one value's deviation: such differences shrink like 1/k.
    Undone, the values are as scattered early as late, and neighbours are not correlated. Recent rates, undone in
    the same way, are correlated by about -1/2; rates that settle after a cold start are correlated strongly at first.
    benchmarks/averages.py measures both errors.
    """
    if len(rates) < _LEAST_READINGS:
        return False
    differences = [abs(b - a) for a, b in pairwise(rates)][2:]
    third = len(differences) // 3
    early, late = statistics.fmean(differences[:third]), statistics.fmean(differences[-third:])
    shrinks = statistics.fmean(1 / k for k in range(4, 4 + third)) / statistics.fmean(
        1 / k for k in range(len(rates) - third, len(rates))
    )
    if late <= 0 or early / late < math.sqrt(shrinks):
        return False
    undone = [k * b - (k - 1) * a for k, (a, b) in enumerate(pairwise(rates), 2)]
    half = len(undone) // 2
    return all(-0.25 < _neighbours_correlation(part) < 0.35 for part in (undone[2:half], undone[half:]))


def _neighbours_correlation(values: Sequence[float]) -> float:
    try:
        return statistics.correlation(values[:-1], values[1:])
    except statistics.StatisticsError:  # all are equal
        return 1.0
