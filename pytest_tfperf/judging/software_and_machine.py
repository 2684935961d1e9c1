"""The verdicts on a whole session: whether the software or the machine has become slower.

A drift common to all tests is taken out of each test's verdict, so it needs verdicts of its own. Some tests, the
sentinels, are measured in pairs with the reference environment even if none is suspected. The pairs' ratios
show the software. The reference environment's runs against their committed baselines show the machine.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.measurement import changes_since
from pytest_tfperf.core.run import Pair
from pytest_tfperf.core.session_verdicts import SessionVerdict, VerdictOn
from pytest_tfperf.core.throughput import hodges_lehmann, run_value
from pytest_tfperf.core.verdict import NOTHING, Noise, Outcome, Reason, Tolerance, Want, Wants
from pytest_tfperf.judging.noise import (
    FALSE_ALARMS,
    MEDIAN_VARIANCE,
    accepted_rise,
    accepted_slowdown,
    baseline_variance,
    is_blind,
    quantile,
)
from pytest_tfperf.judging.pairs import PAIRS_THAT_TELL, PairsTest, Scatter
from pytest_tfperf.judging.session_effects import MIN_TESTS, CommonDrift
from pytest_tfperf.judging.validity import bias

SENTINELS = 4
"""How many tests are measured in pairs for the session's own verdicts."""

SENTINELS_FROM, SENTINELS_FROM_RISE = 0.01, 0.02
"""The common drift, down and up, from which telling the software from the machine is worth the time.

Sessions on a quiet machine differ by 1 %. A rise hides a loss of the software only where the machine gained even more.
"""

MACHINE_TOLERANCE = Tolerance(-0.05, 0.05)
"""Sessions on a quiet machine differ by 1 %, also from the session in which the baselines were recorded."""


@dataclass(frozen=True, slots=True)
class ReferencePairs:
    """One test's pairs with the reference environment, and its row."""

    baseline: Baseline  # the test's committed row
    noise: Noise  # of fresh runs
    pairs: Sequence[Pair]  # good pairs; a is the reference environment's run
    test: str  # pytest's node id
    first_change: float  # ln(images/s of the session's first run / the row)


def wants_sentinels(drift: CommonDrift) -> bool:
    """Whether the common drift is large enough to ask for its cause."""
    return drift.is_known and not -SENTINELS_FROM < drift.log < SENTINELS_FROM_RISE


def sentinels(tests: Collection[str], suspects: Collection[str], turn: int) -> list[str]:
    """Return four tests that are not suspects, another four for each `turn`, the number of earlier sessions.

    A suspect may have slowed down for a cause of its own, which shows nothing about the others.
    """
    candidates = sorted(set(tests) - set(suspects))
    count = min(SENTINELS, len(candidates))
    return [candidates[(turn * SENTINELS + index) % len(candidates)] for index in range(count)]


def judge_sentinels(measured: Sequence[ReferencePairs], tolerance: Tolerance) -> SessionVerdict | None:
    """Judge whether the current environment as a whole is slower than the reference environment.

    The pairs of all sentinels are one sequence, so that a test that slowed down by itself adds no more than any other.
    An INCONCLUSIVE verdict that wants pairs asks for more pairs of each sentinel. None without any pair.
    """
    measured = [sentinel for sentinel in measured if sentinel.pairs]
    if not measured:
        return None
    pairs = [pair for sentinel in measured for pair in sentinel.pairs]
    test = PairsTest(
        changes=[pair.log_ratio for pair in pairs],
        accepted=accepted_slowdown(tolerance),
        known=Scatter(
            2 * statistics.fmean(sentinel.noise.between_runs**2 for sentinel in measured),
            min(sentinel.noise.degrees_of_freedom for sentinel in measured),
        ),
        errors=[pair.uncertainty for pair in pairs],
        bias=bias(pairs) if len(pairs) >= PAIRS_THAT_TELL else 0.0,
    )
    outcome, _, wants = test.decided()
    reason = None
    if outcome is Outcome.INCONCLUSIVE:
        reason = Reason.WITHIN_NOISE if wants == NOTHING else Reason.UNDECIDED
        fewest = min(len(sentinel.pairs) for sentinel in measured)
        wants = wants if wants == NOTHING else Wants(Want.PAIRS, fewest + 1)
    elif outcome is Outcome.PASS and is_blind(test.hidden_by_noise, test.accepted):
        outcome = Outcome.TOO_NOISY
    low, high = test.interval
    return SessionVerdict(
        kind=VerdictOn.SOFTWARE,
        outcome=outcome,
        reason=reason,
        change=math.expm1(test.middle),
        interval=(math.expm1(low), math.expm1(high)),
        threshold=None if math.isinf(test.accepted) else -math.expm1(-test.threshold_in(test.last)),
        tests=len(measured),
        pairs=len(pairs),
        wants=wants,
    )


def judge_machine(
    drift: CommonDrift,
    measured: Sequence[ReferencePairs] = (),
    *,
    between_sessions: float = 0.0,
) -> SessionVerdict | None:
    """Judge how much the machine's speed changed since its baselines were recorded.

    Without any pair the common drift is judged, a part of which may be the software's. A session of too few tests can't
    tell a slower machine from slower tests, and is at most INCONCLUSIVE. None where nothing is known.
    `between_sessions` is the standard deviation between sessions of a single test (`SessionVariance.mean`).
    """
    measured = [test for test in measured if test.pairs and not _has_other_software(test)]
    if measured:
        middle = hodges_lehmann([_machine_change(test) for test in measured])
        error = _error([_machine_variance(test) + 2 * between_sessions**2 for test in measured])
        freedom, tests = min(test.noise.degrees_of_freedom for test in measured), len(measured)
        if drift.is_known:
            # A neighbour of the pairs' time alone is no slower machine: all tests' first runs show at least half of it.
            gained = max(0.0, hodges_lehmann([_software_change(test) for test in measured]))
            middle = max(middle, min(0.0, 2 * (drift.log - gained)))
    elif drift.is_known:
        middle, error, freedom, tests = drift.log, drift.error, math.inf, drift.tests
    else:
        return None
    explained, accepted = quantile(freedom, FALSE_ALARMS) * error, accepted_slowdown(MACHINE_TOLERANCE)
    threshold = max(accepted, explained)
    reason, few, slow = None, None, list[str]()
    if middle < -threshold:
        if not drift.is_known:
            reason, few = Reason.FEW_TESTS, (drift.tests, MIN_TESTS)
        elif tests < SENTINELS:
            reason, few = Reason.FEW_WITH_PAIRS, (tests, SENTINELS)
        outcome = Outcome.INCONCLUSIVE if reason else Outcome.REGRESSED
    elif middle > max(accepted_rise(MACHINE_TOLERANCE), explained):
        outcome = Outcome.IMPROVED
    else:
        outcome = Outcome.TOO_NOISY if is_blind(threshold, accepted) else Outcome.PASS
    if outcome is not Outcome.REGRESSED and reason is None:
        slow = [test.test for test in measured if _is_slow_apart(test, drift, between_sessions, len(measured))]
        if slow:
            outcome, reason = Outcome.INCONCLUSIVE, Reason.SLOW_IN_PART
    half = quantile(freedom, 0.025) * error
    return SessionVerdict(
        kind=VerdictOn.MACHINE if measured else VerdictOn.TOGETHER,
        outcome=outcome,
        reason=reason,
        change=math.expm1(middle),
        interval=(math.expm1(middle - half), math.expm1(middle + half)),
        threshold=-math.expm1(-threshold),
        tests=tests,
        few=few,
        slow=tuple(slow),
    )


def _has_other_software(test: ReferencePairs) -> bool:
    """Whether the reference environment, which may be named by hand, differs from the environment of the row.

    The runs in it, against the row, then show the machine and the software together.
    """
    return any(
        not change.is_outside for pair in test.pairs for change in changes_since(test.baseline, pair.a.environment)
    )


def _is_slow_apart(test: ReferencePairs, drift: CommonDrift, between_sessions: float, tests: int) -> bool:
    """Whether a test is slower in both environments than the machine's drift explains, as on one throttled GPU.

    The first run and the pairs' runs in either environment must all show it: slow workers and neighbours do not last.
    """
    current = hodges_lehmann([run_value(pair.b).log_rate for pair in test.pairs]) - math.log(test.baseline.value)
    change = max(test.first_change, _machine_change(test), current) - drift.log
    error = math.sqrt(_machine_variance(test) + 2 * between_sessions**2)
    explained = quantile(test.noise.degrees_of_freedom, FALSE_ALARMS / tests) * error
    return len(test.pairs) > 1 and change < -max(explained, accepted_slowdown(MACHINE_TOLERANCE))


def _software_change(test: ReferencePairs) -> float:
    return hodges_lehmann([pair.log_ratio for pair in test.pairs])


def _machine_change(test: ReferencePairs) -> float:
    rates = [run_value(pair.a).log_rate for pair in test.pairs]
    return hodges_lehmann(rates) - math.log(test.baseline.value)


def _machine_variance(test: ReferencePairs) -> float:
    return test.noise.between_runs**2 * (1 / len(test.pairs) + baseline_variance(test.baseline.runs))


def _error(variances: Sequence[float]) -> float:
    """Return the standard error of a middle over tests whose values have these variances."""
    return math.sqrt(MEDIAN_VARIANCE * statistics.fmean(variances) / len(variances))
