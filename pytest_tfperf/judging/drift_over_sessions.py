"""What all tests of a machine have in common, session by session: the course of the machine itself."""

from __future__ import annotations

import numpy as np

from pytest_tfperf.judging.change_points import Values
from pytest_tfperf.judging.common_drift import MIN_TESTS

_MEMORY = 20  # sessions that a test's own level is a mean of


def common_course(rates: Values) -> Values:
    """The common part of each session, in log rate; NaN where too few tests tell.

    It is the median over the tests of how far each is from its own level. A level is a running mean of what the common
    part left of the earlier sessions, so no later session is used. The first session's common part is 0.

    Args:
        rates: log rates, a row for each session, oldest first, and a column for each test; NaN where not measured.
    """
    course = np.full(len(rates), np.nan)
    levels, counts = np.zeros(rates.shape[1]), np.zeros(rates.shape[1])
    now = 0.0
    for index, row in enumerate(rates):
        present = ~np.isnan(row)
        if present.sum() < MIN_TESTS:
            continue
        known = present & (counts > 0)
        if known.sum() >= MIN_TESTS:
            now = float(np.median(row[known] - levels[known]))
        course[index] = now
        counts[present] += 1
        gains = np.maximum(1 / counts[present], 1 / _MEMORY)
        levels[present] += gains * (row[present] - now - levels[present])
    return course
