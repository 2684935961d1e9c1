"""The part of each session's rates that all tests of a machine have in common."""

from __future__ import annotations

import numpy as np

from pytest_tfperf.judging.change_points import Values
from pytest_tfperf.judging.common_drift import MIN_TESTS

_MEMORY = 30  # sessions that a test's own level is the median of


def common_course(rates: Values) -> Values:
    """The common part of each session, in log rate; NaN where too few tests show it.

    It is the median over the tests of how far each is from its own level. A level is the median of what the common part
    left of the test's earlier sessions, so no later session is used. Both are medians: where noise is skewed, a mean in
    place of one of them would make the course drift. The first session's common part is 0.

    Args:
        rates: log rates, a row for each session, oldest first, and a column for each test; NaN where not measured.
    """
    course = np.full(len(rates), np.nan)
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
        course[index] = now
        kept[counts[present] % _MEMORY, present] = row[present] - now
        counts[present] += 1
    return course


def _medians(kept: Values, counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Values:
    """Of each column; NaN, which sorts last, is what a column lacks."""
    ordered, filled = np.sort(kept, axis=0), np.minimum(counts, len(kept))
    columns = np.arange(kept.shape[1])
    middle: Values = (ordered[(filled - 1) // 2, columns] + ordered[filled // 2, columns]) / 2
    return middle
