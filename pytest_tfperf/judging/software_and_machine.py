"""The verdicts on a whole session: has the software become slower, has the machine.

A drift common to all tests is taken out of each test's verdict, so it needs verdicts of its own. Some tests, the
sentinels, are measured in pairs with the reference environment even if none is suspected. The pairs' ratios are the
software's doing. The reference environment's runs against their committed baselines are the machine's.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.measurement import OUTSIDE, changes_since
from pytest_tfperf.core.run import Pair
from pytest_tfperf.core.session_verdicts import Doubt, DoubtKind, MachineVerdict, SoftwareVerdict
from pytest_tfperf.core.throughput import hodges_lehmann, run_value
from pytest_tfperf.core.verdict import NOTHING, Noise, Outcome, Tolerance, Want, Wants
from pytest_tfperf.judging.common_drift import MIN_TESTS, CommonDrift
from pytest_tfperf.judging.thresholds import (
    DOUBTS,
    FALSE_ALARMS,
    MEDIAN_VARIANCE,
    accepted_rise,
    accepted_slowdown,
    is_blind,
    quantile,
    reference_variance,
    suspicion,
)

SENTINELS = 4
"""How many tests are measured in pairs for the session's own verdicts."""

SENTINEL_STAGES = (1, 2, 4)
"""Pairs of each sentinel after which the software may be cleared; the last stage decides."""

SENTINELS_FROM = 0.01
"""The common drift, up or down, from which telling the software from the machine is worth the time."""

MACHINE_TOLERANCE = Tolerance(-0.05, 0.05)
"""Sessions on a quiet machine differ by 1 %, also from the session in which the baselines were recorded."""

_AGREE = 3 / 4  # of the sentinels must show half of the threshold: one of them may have lost something by itself


@dataclass(frozen=True, slots=True)
class ReferencePairs:
    """One test's pairs with the reference environment, and its row.

    Args:
        baseline: the test's committed row.
        noise: of fresh runs.
        pairs: good pairs; a is the reference environment's run.
    """

    baseline: Baseline
    noise: Noise
    pairs: Sequence[Pair]


def wants_sentinels(drift: CommonDrift) -> bool:
    """Whether the common drift is large enough to ask for its cause."""
    return drift.is_known and abs(drift.log) >= SENTINELS_FROM


def sentinels(tests: Collection[str], suspects: Collection[str], turn: int) -> list[str]:
    """Four tests that are not suspects, in rotation: another four for each `turn`, the number of earlier sessions.

    A suspect may have lost something by itself, which shows nothing about the others.
    """
    candidates = sorted(set(tests) - set(suspects))
    count = min(SENTINELS, len(candidates))
    return [candidates[(turn * SENTINELS + index) % len(candidates)] for index in range(count)]


def judge_sentinels(measured: Sequence[ReferencePairs], tolerance: Tolerance) -> SoftwareVerdict | None:
    """Whether the current environment as a whole is slower than the reference environment.

    `tolerance` is what all of them together may lose. INCONCLUSIVE that wants pairs asks for more pairs of each. None
    without any pair.
    """
    measured = [one for one in measured if one.pairs]
    if not measured:
        return None
    changes = [hodges_lehmann([pair.log_ratio for pair in one.pairs]) for one in measured]
    count, middle = min(len(one.pairs) for one in measured), hodges_lehmann(changes)
    today = _scatter_of_pairs(measured)
    error = _error([max(2 * one.noise.between_runs**2, today) / len(one.pairs) for one in measured])
    freedom = min(one.noise.degrees_of_freedom for one in measured)
    accepted = accepted_slowdown(tolerance)
    threshold = max(accepted, quantile(freedom, FALSE_ALARMS) * error)
    wanted = next((stage for stage in SENTINEL_STAGES if stage > count), 0)
    showing, needed = sum(change < -threshold / 2 for change in changes), math.ceil(_AGREE * len(changes))
    doubt = None
    too_noisy = is_blind(threshold, accepted)
    if middle >= -suspicion(accepted, error) and not too_noisy:
        outcome, wanted = Outcome.PASS, 0
    elif wanted:
        outcome, doubt = Outcome.INCONCLUSIVE, Doubt(DoubtKind.UNDECIDED)
    elif middle < -threshold and showing >= needed:
        outcome = Outcome.REGRESSED
    elif middle < -threshold:
        outcome, doubt = Outcome.INCONCLUSIVE, Doubt(DoubtKind.TESTS_DISAGREE, showing, needed)
    elif middle < -max(accepted, quantile(freedom, DOUBTS) * error):
        outcome, doubt = Outcome.INCONCLUSIVE, Doubt(DoubtKind.WITHIN_NOISE)
    else:
        outcome = Outcome.TOO_NOISY if too_noisy else Outcome.PASS
    half = quantile(freedom, 0.025) * error
    return SoftwareVerdict(
        outcome=outcome,
        change=math.expm1(middle),
        low=math.expm1(middle - half),
        high=math.expm1(middle + half),
        threshold=None if math.isinf(accepted) else -math.expm1(-threshold),
        tests=len(measured),
        pairs=sum(len(one.pairs) for one in measured),
        wants=Wants(Want.PAIRS, wanted) if wanted else NOTHING,
        doubt=doubt,
    )


def judge_machine(
    drift: CommonDrift,
    measured: Sequence[ReferencePairs] = (),
    *,
    between_sessions: float = 0.0,
) -> MachineVerdict | None:
    """How far the machine moved since its baselines were recorded.

    Without any pair it is the common drift, of which a part may be the software's. A session of too few tests can't
    tell the machine from its tests, and is at most INCONCLUSIVE. None where nothing is known.

    Args:
        drift: what all tests of the session have in common.
        measured: the tests that have pairs with the reference environment.
        between_sessions: standard deviation of what a session does to one test by itself (`SessionVariance.mean`).
    """
    measured = [one for one in measured if one.pairs and not _has_other_software(one)]
    if measured:
        middle = hodges_lehmann([_machine_change(one) for one in measured])
        error = _error([_machine_variance(one) + 2 * between_sessions**2 for one in measured])
        freedom, tests = min(one.noise.degrees_of_freedom for one in measured), len(measured)
    elif drift.is_known:
        middle, error, freedom, tests = drift.log, drift.error, math.inf, drift.tests
    else:
        return None
    explained, accepted = quantile(freedom, FALSE_ALARMS) * error, accepted_slowdown(MACHINE_TOLERANCE)
    threshold = max(accepted, explained)
    doubt = None
    if middle < -threshold:
        if not drift.is_known:
            doubt = Doubt(DoubtKind.FEW_TESTS, drift.tests, MIN_TESTS)
        elif tests < SENTINELS:
            doubt = Doubt(DoubtKind.FEW_WITH_PAIRS, tests, SENTINELS)
        outcome = Outcome.INCONCLUSIVE if doubt else Outcome.REGRESSED
    elif middle > max(accepted_rise(MACHINE_TOLERANCE), explained):
        outcome = Outcome.IMPROVED
    else:
        outcome = Outcome.TOO_NOISY if is_blind(threshold, accepted) else Outcome.PASS
    half = quantile(freedom, 0.025) * error
    return MachineVerdict(
        outcome=outcome,
        change=math.expm1(middle),
        low=math.expm1(middle - half),
        high=math.expm1(middle + half),
        threshold=-math.expm1(-threshold),
        tests=tests,
        is_apart=bool(measured),
        doubt=doubt,
    )


def _scatter_of_pairs(measured: Sequence[ReferencePairs]) -> float:
    """The pooled variance of the pairs within each test, larger than the recorded one where the machine is unsteady."""
    ratios = [[pair.log_ratio for pair in one.pairs] for one in measured if len(one.pairs) > 1]
    squares = math.fsum(statistics.variance(one) * (len(one) - 1) for one in ratios)
    freedom = sum(len(one) - 1 for one in ratios)
    return squares / freedom if freedom else 0.0


def _has_other_software(one: ReferencePairs) -> bool:
    """Whether the reference environment, as one that was named by hand, is not that in which the row was recorded.

    Its runs against the row then show the machine and the software together.
    """
    return any(
        change.name not in OUTSIDE for pair in one.pairs for change in changes_since(one.baseline, pair.a.environment)
    )


def _machine_change(one: ReferencePairs) -> float:
    rates = [run_value(pair.a).log_rate for pair in one.pairs]
    return hodges_lehmann(rates) - math.log(one.baseline.reference)


def _machine_variance(one: ReferencePairs) -> float:
    return one.noise.between_runs**2 * (1 / len(one.pairs) + reference_variance(one.baseline.runs))


def _error(variances: Sequence[float]) -> float:
    """The standard error of a middle over tests whose values have these variances."""
    return math.sqrt(MEDIAN_VARIANCE * statistics.fmean(variances) / len(variances))
