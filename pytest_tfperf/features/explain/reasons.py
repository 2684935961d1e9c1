"""The figures behind a stored verdict, computed again from what it holds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Noise, Rule, Verdict
from pytest_tfperf.judging.common_drift import CommonDrift
from pytest_tfperf.judging.confirmation import PAIR_STAGES, Confirmation, by_pairs, by_runs
from pytest_tfperf.judging.noise import mean_square
from pytest_tfperf.judging.provisional import MOST_RUNS
from pytest_tfperf.judging.session_variance import LearntReference
from pytest_tfperf.judging.thresholds import (
    DETECTION,
    FALSE_ALARMS,
    TO_BE_FOUND,
    accepted_slowdown,
    quantile,
    reference_variance,
)


@dataclass(frozen=True, slots=True)
class Power:
    """What a number of runs or pairs can show; the slowdowns are positive fractions.

    Args:
        count: runs or pairs.
        threshold: the slowdown from which the test would fail.
        detectable: the slowdown that is detected with 95 % power, suspicion by the first run included.
    """

    count: int
    threshold: float
    detectable: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardDeviations:
    """Why two measurements differ, as standard deviations of log throughput; None if not known.

    Args:
        within_runs: what the windows of one run leave uncertain.
        between_runs: of fresh runs.
        of_baseline: of the baseline, which rests on a limited number of runs.
        between_sessions: of what a session does to one test by itself.
    """

    within_runs: float | None
    between_runs: float
    of_baseline: float
    between_sessions: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The steps from runs to a verdict; changes are fractions, -0.05 for 5 % slower.

    Args:
        rule: which of the two rules decided; it says whether `changes` are of pairs or of runs.
        expected: the throughput that the runs were held against, without the drift common to all tests.
        first_change: of the first run, which raises a suspicion or passes the test.
        suspected_from: the slowdown of the first run, a positive fraction, from which it is suspected; negative where
            only a faster run passes unsuspected.
        changes: of each run or pair that decided, in order.
        middle: the Hodges-Lehmann median of the changes; None before there is one.
        accepted: the slowdown that the tolerance accepts, a positive fraction.
        threshold: the slowdown from which the test fails: the tolerance, or more where noise explains more.
        showing: how many changes show at least half of the threshold.
        showing_wanted: how many of them must.
        last: the count of runs or pairs that decides at the latest.
        enough: the least count for which the threshold is below this slowdown; None where the tolerance accepts the
            slowdown, or no count up to `MOST` would be enough.
        deviations: where the threshold comes from.
        powers: what other counts would show.
    """

    rule: Rule
    expected: float
    first_change: float
    suspected_from: float
    changes: tuple[float, ...]
    middle: float | None
    accepted: float
    threshold: float
    showing: int
    showing_wanted: int
    last: int
    enough: int | None
    deviations: StandardDeviations
    powers: tuple[Power, ...]


MOST = 100
"""Runs or pairs up to which `Explanation.enough` looks."""


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
    assert verdict.tolerance is not None, "a verdict with a threshold has a tolerance"
    accepted = accepted_slowdown(verdict.tolerance)
    expected = _expected(m, verdict, verdict.baseline)
    runs = _of_runs(m, verdict, verdict.baseline, verdict.noise, expected, accepted)
    if verdict.rule is Rule.REFERENCE_ENVIRONMENT:
        found, counts = by_pairs(m.pairs, verdict.noise, accepted, suspects=verdict.tests), PAIR_STAGES
    else:
        found, counts = _with_threshold(runs, -math.log1p(-verdict.threshold)), _RUNS
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
        powers=tuple(_power(found, runs, suspected_from, count, verdict) for count in counts),
    )


def _expected(m: Measurement, verdict: Verdict, row: Baseline) -> float:
    """The rate that the runs were compared with; good sessions may have moved it away from the row."""
    if verdict.rule is Rule.BASELINE and verdict.confirmed_change is not None:
        return m.throughput.examples_per_sec / (1 + verdict.confirmed_change)
    return row.reference * math.exp(verdict.common_drift)


def _of_runs(
    m: Measurement, verdict: Verdict, row: Baseline, noise: Noise, expected: float, accepted: float
) -> Confirmation:
    values = m.throughput.runs
    return by_runs(
        values,
        [value.log_rate - math.log(expected) for value in values],
        noise,
        accepted,
        learnt=LearntReference(0.0, reference_variance(row.runs), 1.0),
        drift=CommonDrift(verdict.common_drift, verdict.tests if verdict.common_drift else 0),
        session_sd=noise.between_sessions,
        most_session_sd=noise.between_sessions,
        tests=verdict.tests,
        max_runs=MOST_RUNS if verdict.is_provisional else None,
        to_be_found=TO_BE_FOUND if verdict.rule is Rule.REFERENCE_ENVIRONMENT else math.inf,
        warns_only=verdict.is_provisional,
    )


def _with_threshold(found: Confirmation, threshold: float) -> Confirmation:
    """The same with what the baseline and sessions add set so that it gives this threshold.

    Where the threshold is the tolerance, only its upper bound is known.
    """
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
    """What `count` runs or pairs detect. The verdict's own figure bounds those that are computed again."""
    threshold = _threshold(found, count)
    first = suspected_from + DETECTION * runs.error(1)
    detectable = -math.expm1(-max(first, threshold + DETECTION * found.error(count)))
    known, last = verdict.min_detectable_slowdown, found.stages[-1]
    if known is not None and count <= last:
        detectable = known if count == last else max(detectable, known)
    elif known is not None:
        detectable = min(detectable, known)
    return Power(count, -math.expm1(-threshold), detectable)


def _enough(found: Confirmation) -> int | None:
    if not found.changes or found.middle >= -found.accepted:
        return None
    return next((count for count in range(1, MOST + 1) if found.middle < -_threshold(found, count)), None)


def _deviations(m: Measurement, row: Baseline, noise: Noise) -> StandardDeviations:
    within = mean_square(run.error for run in m.throughput.runs)
    return StandardDeviations(
        within_runs=None if within is None else math.sqrt(within),
        between_runs=noise.between_runs,
        of_baseline=noise.between_runs * math.sqrt(reference_variance(row.runs)),
        between_sessions=noise.between_sessions,
    )
