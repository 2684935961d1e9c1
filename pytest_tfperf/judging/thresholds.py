"""The slowdowns, in natural logarithms of throughput, from which a test is suspected and from which it fails."""

from __future__ import annotations

import math
from functools import cache

from pytest_tfperf.core.verdict import Tolerance

FALSE_ALARMS = 0.01
"""How often noise alone may fail a session: shared among its tests, or by rule 1 among its suspects."""

DOUBTS = 0.05
"""How often noise alone may leave a session with an INCONCLUSIVE test."""

SUSPICION = 1.5
"""In standard errors: a test is suspected if its slowdown exceeds both this noise and the tolerance less this noise."""

TO_BE_FOUND = -math.log1p(-0.05) + math.log1p(-0.02)
"""A loss that noise must not let pass unsuspected, in excess of the tolerance: 5 % where 2 % is accepted.

It applies only where there is a reference environment, which can confirm the loss. A test that is too noisy to show
such a loss by itself is suspected unless it is so much faster that the loss is unlikely.
"""

DETECTION = 2.05
"""Standard errors beyond the threshold at which a slowdown is detected: 98 times in 100 by the screen and again by the
decision, so about 95 in 100 by both. benchmarks/verdict.py holds the result against simulated sessions."""

TOO_NOISY_TO_GATE = 0.25
"""The least slowdown that a gate must detect: no row is recorded whose runs differ too much for it (with five runs, a
standard deviation of 7 %), and no pass counts if noise, and not the tolerance, puts the threshold beyond it."""

MEDIAN_VARIANCE = 1.07
"""The variance of a Hodges-Lehmann median of normal values, in variances of their mean."""


def accepted_slowdown(tolerance: Tolerance) -> float:
    """Return the tolerance's lower bound as a positive logarithm; inf where any drop is accepted."""
    return math.inf if tolerance.lower is None else -math.log1p(tolerance.lower)


def accepted_rise(tolerance: Tolerance) -> float:
    """Return the tolerance's upper bound as a logarithm; inf where any rise is accepted."""
    return math.inf if tolerance.upper is None else math.log1p(tolerance.upper)


def is_blind(threshold: float, accepted: float) -> bool:
    """Whether noise widens a threshold so far beyond the tolerance that a pass says nothing; both are logarithms."""
    return threshold > max(accepted, -math.log1p(-TOO_NOISY_TO_GATE))


def suspicion(accepted: float, error: float, to_be_found: float = math.inf) -> float:
    """Return the slowdown from which a value with this standard error is suspected; below 0, a speed-up clears it."""
    noise = SUSPICION * error
    return max(min(noise, accepted + to_be_found - DETECTION * error), accepted - noise)


def detectable(accepted: float, error: float) -> float:
    """Return the change that one run against a row shows with 98 % power, in the unit of the arguments."""
    return suspicion(accepted, error) + DETECTION * error


def baseline_variance(runs: int) -> float:
    """Return the variance of a baseline, the Hodges-Lehmann median of its runs, in variances between runs."""
    return MEDIAN_VARIANCE / runs if runs > 1 else 1.0


def screen_error(between_runs: float, baseline_runs: int) -> float:
    """Return the standard error of the difference between one run and a baseline of `baseline_runs` runs."""
    return between_runs * math.sqrt(1 + baseline_variance(baseline_runs))


@cache
def quantile(degrees_of_freedom: float, upper_tail: float) -> float:
    """Return Student's t quantile that is exceeded with the probability `upper_tail`."""
    from scipy.special import stdtrit

    return -float(stdtrit(min(degrees_of_freedom, _MANY), upper_tail))


_MANY = 1e6  # degrees of freedom from which t is normal; scipy's functions don't take inf
