"""The figures behind a stored verdict, computed again from what it holds."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.explanation import MOST, Explanation, Power, StandardDeviations
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.noise import Noise
from pytest_tfperf.core.verdict import Rule, Verdict
from pytest_tfperf.judging.common_drift import CommonDrift
from pytest_tfperf.judging.confirmation import PAIR_STAGES, Confirmation, by_pairs, by_runs
from pytest_tfperf.judging.provisional import MOST_RUNS
from pytest_tfperf.judging.session_variance import GRID, LearntReference, SessionVariance
from pytest_tfperf.judging.thresholds import (
    DETECTION,
    FALSE_ALARMS,
    TO_BE_FOUND,
    accepted_slowdown,
    quantile,
    reference_variance,
)

_RUNS = (1, 3, 5, 8)


def explain(m: Measurement) -> Explanation | None:
    """The figures behind a verdict; None where nothing was judged, or any slowdown is accepted.

    The verdict holds the expected effect of a session, but neither the most that the threshold allowed for nor what
    earlier sessions told of the baseline. Both are solved from the threshold, so the figures for the count that decides
    are those of the verdict.
    """
    verdict = m.verdict
    if verdict is None or verdict.baseline is None or verdict.noise is None or verdict.threshold is None:
        return None
    expected = _expected(m, verdict, verdict.baseline)
    runs = _of_runs(m, verdict, verdict.baseline, verdict.noise, expected)
    found = _of_pairs(m, verdict, verdict.noise) if verdict.rule is Rule.REFERENCE_ENVIRONMENT else runs
    found = _with_threshold(found, -math.log1p(-verdict.threshold))
    suspected_from = runs.suspicion(1) if verdict.lower is None else math.log(expected / verdict.lower)
    threshold = found.threshold(FALSE_ALARMS)
    return Explanation(
        rule=verdict.rule,
        expected=expected,
        first_change=math.expm1(runs.changes[0]),
        suspected_from=-math.expm1(-suspected_from),
        changes=tuple(map(math.expm1, found.changes)),
        middle=math.expm1(found.middle) if found.changes else None,
        accepted=-math.expm1(-found.accepted),
        threshold=-math.expm1(-threshold),
        showing=sum(change < -threshold / 2 for change in found.changes),
        showing_wanted=math.ceil(found.agreement * len(found.changes)),
        last=found.stages[-1],
        enough=_enough(found),
        deviations=_deviations(m, verdict.baseline, verdict.noise),
        powers=tuple(_power(found, runs, suspected_from, count, verdict) for count in _counts(verdict)),
    )


def _counts(verdict: Verdict) -> tuple[int, ...]:
    return PAIR_STAGES if verdict.rule is Rule.REFERENCE_ENVIRONMENT else _RUNS


def _expected(m: Measurement, verdict: Verdict, row: Baseline) -> float:
    """What the runs were held against: good sessions may have moved it away from the row, and `lower` doesn't tell."""
    if verdict.rule is Rule.BASELINE and verdict.confirmed_change is not None:
        return m.throughput.examples_per_sec / (1 + verdict.confirmed_change)
    return row.reference * math.exp(verdict.common_drift)


def _of_runs(m: Measurement, verdict: Verdict, row: Baseline, noise: Noise, expected: float) -> Confirmation:
    values = m.throughput.runs
    assert verdict.tolerance is not None, "a verdict with a threshold has a tolerance"
    return by_runs(
        values,
        [value.log_rate - math.log(expected) for value in values],
        noise,
        accepted_slowdown(verdict.tolerance),
        learnt=LearntReference(0.0, reference_variance(row.runs), 1.0),
        drift=CommonDrift(verdict.common_drift, verdict.tests if verdict.common_drift else 0),
        variance=_known(noise.between_sessions),
        tests=verdict.tests,
        max_runs=MOST_RUNS if verdict.is_provisional else None,
        to_be_found=TO_BE_FOUND if verdict.rule is Rule.REFERENCE_ENVIRONMENT else math.inf,
    )


def _of_pairs(m: Measurement, verdict: Verdict, noise: Noise) -> Confirmation:
    assert verdict.tolerance is not None, "a verdict with a threshold has a tolerance"
    return by_pairs(m.pairs, noise, accepted_slowdown(verdict.tolerance), suspects=verdict.tests)


def _known(between_sessions: float) -> SessionVariance:
    """All weight on the two points of the grid beside this standard deviation, so that it is the mean."""
    index = min(int(between_sessions / GRID[1]), len(GRID) - 2)
    above = min(between_sessions / GRID[1] - index, 1.0)
    weights = [0.0] * len(GRID)
    weights[index], weights[index + 1] = 1 - above, above
    return SessionVariance(tuple(weights), below_upper=0.5)


def _with_threshold(found: Confirmation, threshold: float) -> Confirmation:
    """The same with what the baseline and sessions add set so that it gives this threshold.

    Where the threshold is the tolerance, only its upper bound is known.
    """
    if found.rule is Rule.REFERENCE_ENVIRONMENT:
        return found  # nothing is added
    count = max(found.stages[-1], len(found.changes))
    error = threshold / quantile(found.degrees_of_freedom, FALSE_ALARMS / found.tests)
    rest = max(0.0, error**2 - found.own_variance_today / count)
    is_widened = threshold > found.accepted + 1e-9
    if not is_widened and found.shared_variance + found.most_session_variance <= rest:
        return found
    shared = min(found.shared_variance, rest)
    return replace(found, shared_variance=shared, most_session_variance=rest - shared)


def _threshold(found: Confirmation, count: int) -> float:
    return replace(found, stages=(count,), changes=()).threshold(FALSE_ALARMS)


def _power(found: Confirmation, runs: Confirmation, suspected_from: float, count: int, verdict: Verdict) -> Power:
    """What so many tell; what the verdict says of its own count bounds the other counts, which are computed again."""
    threshold = _threshold(found, count)
    first = suspected_from + DETECTION * runs.error(1)
    detectable = -math.expm1(-max(first, threshold + DETECTION * found.error(count)))
    known = verdict.min_detectable_slowdown
    if known is not None:
        last = found.stages[-1]
        detectable = known if count == last else max(detectable, known) if count < last else min(detectable, known)
    return Power(count, -math.expm1(-threshold), detectable)


def _enough(found: Confirmation) -> int | None:
    if not found.changes or found.middle >= -found.accepted:
        return None
    return next((count for count in range(1, MOST + 1) if found.middle < -_threshold(found, count)), None)


def _deviations(m: Measurement, row: Baseline, noise: Noise) -> StandardDeviations:
    errors = [run.error for run in m.throughput.runs if math.isfinite(run.error)]
    return StandardDeviations(
        within_runs=math.sqrt(statistics.fmean(error**2 for error in errors)) if errors else None,
        between_runs=noise.between_runs,
        of_baseline=noise.between_runs * math.sqrt(reference_variance(row.runs)),
        between_sessions=noise.between_sessions,
    )
