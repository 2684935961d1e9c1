"""The error rates that a trial of the gate shows, the tolerance that each test can hold, and whether it may block."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Final

from pytest_tfperf.core.session_verdicts import VerdictOn
from pytest_tfperf.core.trial import (
    LEAST_FOUND,
    LEAST_WITH_LOSSES,
    MOST_FALSE,
    Gate,
    Rate,
    TestNoise,
    Trial,
    TrialAnswer,
)

_OF_SESSIONS: Final = 0.95  # the confidence of each bound
_OF_LOSSES: Final = 0.975
_ALIKE: Final = 0.05  # the correlation between the sessions' findings: they share the errors of the baselines
_LEAST_CHANGES: Final = 5  # of a test, before it has a tolerance that it can hold
_WITHIN: Final = 0.99
_OFTEN: Final = 0.25  # of a test's sessions
_MOST_FURTHER: Final = 30  # sessions: after four false failures of twenty, nobody wants to run another 39


def rate(count: int, of: int, independent: float | None = None, confidence: float = _OF_SESSIONS) -> Rate:
    """Return the rate of `count` in `of` tries, with its bounds by Clopper and Pearson (1934).

    Args:
        count, of: what happened, and how often it was tried; without a try the rate may be anything.
        independent: the number of independent groups that the tries come in, as losses come in sessions, which share
            their drift and their baselines; None if each try is independent. The bounds are those of so many tries with
            the same share.
        confidence: of each bound.
    """
    from scipy.special import betaincinv  # takes a fifth of a second to import

    tries = of if independent is None else independent
    happened = count / of * tries if of else 0.0
    low = float(betaincinv(happened, tries - happened + 1, 1 - confidence)) if count else 0.0
    high = float(betaincinv(happened + 1, tries - happened, confidence)) if count < of else 1.0
    return Rate(count, of, low, high)


def answer(trial: Trial) -> TrialAnswer:
    """Return what a trial shows.

    The gate may block where at most `MOST_FALSE` of the sessions of unchanged code fail, by the upper bound, and at
    least `LEAST_FOUND` of the losses of `LEAST_WITH_LOSSES` or more sessions were found. A history has no losses that
    are known: there the first condition suffices. No gate may block with a test that is unfit for it.
    """
    unchanged, found = trial.unchanged, trial.losses
    with_losses = sum(bool(session.losses) for session in trial.sessions)
    false = rate(sum(session.failed_falsely for session in unchanged), len(unchanged))
    independent = with_losses / (1 + _ALIKE * (with_losses - 1))  # Kish (1965), of clusters
    losses = rate(sum(found), len(found), independent, _OF_LOSSES)
    further = _further(false)
    further_losses = 0 if trial.is_of_history else max(0, LEAST_WITH_LOSSES - with_losses)
    misses = bool(losses.of) and losses.count < LEAST_FOUND * losses.of
    if further is None or (misses and not further_losses):
        gate = Gate.WARN_ONLY
    else:
        gate = Gate.UNDECIDED if further or further_losses else Gate.MAY_BLOCK
    names = {name: None for session in trial.sessions for name in session.tests}
    tests = {name: _noise(trial, name) for name in names}
    others = Counter(test for session in trial.sessions for test in session.other_failures)
    unfit = [name for name, noise in tests.items() if noise.is_too_noisy]
    failed = Counter(test for session in trial.sessions for test in session.failed)
    unfit += [*trial.without_baseline, *(name for name in failed if failed[name] > MOST_FALSE * len(trial.sessions))]
    if unfit and gate is Gate.MAY_BLOCK:
        gate = Gate.WARN_ONLY
    return TrialAnswer(
        gate=gate,
        false_failures=false,
        losses=losses,
        further=further or 0,
        further_losses=further_losses,
        not_counted=sum(not session.is_counted for session in trial.sessions),
        machine=sum(VerdictOn.MACHINE in session.failing for session in unchanged),
        tests=tests,
        other_failures=others,
        unfit=tuple(dict.fromkeys(unfit)),
    )


def _further(false: Rate) -> int | None:
    """Return how many more sessions without a false failure satisfy the rule; None for more than can be asked for."""
    sizes = range(false.of, false.of + _MOST_FURTHER + 1)
    enough = (of for of in sizes if of and rate(false.count, of).high <= MOST_FALSE)
    return None if (first := next(enough, None)) is None else first - false.of


def _noise(trial: Trial, test: str) -> TestNoise:
    results = [s.tests[test] for s in trial.sessions if test in s.tests and test not in s.slowed]
    changes = [result.change for result in results if result.change is not None]
    kinds = Counter(kind for result in results for kind in set(result.disturbances))
    scatter = math.sqrt(statistics.fmean(change**2 for change in changes)) if len(changes) >= _LEAST_CHANGES else None
    holds = None if scatter is None else _held(scatter, len(changes))
    return TestNoise(
        sessions=len(results),
        scatter=scatter,
        holds=holds,
        tolerance=results[-1].tolerance if results else None,
        is_too_noisy=holds is not None and holds >= trial.slowdown,
        is_input_bound=sum(result.is_input_bound for result in results) > len(results) / 2,
        clocks_mhz=_varying([result.clock_mhz for result in results if result.clock_mhz], scatter),
        disturbed={kind: count for kind, count in kinds.items() if count >= _OFTEN * len(results)},
    )


def _held(scatter: float, changes: int) -> float:
    """Return the slowdown that 99 of 100 further sessions stay below.

    The prediction bound of a normal sample whose mean is known to be 0: the expected throughput is the baseline's, so
    an error of the baseline is a part of the scatter.
    """
    from scipy.special import stdtrit

    return 1 - math.exp(-float(stdtrit(changes, _WITHIN)) * scatter)


def _varying(clocks: Sequence[float], scatter: float | None) -> tuple[float, float] | None:
    if scatter is None or len(clocks) < _LEAST_CHANGES:
        return None
    varies = statistics.stdev(clocks) / statistics.fmean(clocks) >= scatter / 2
    return (min(clocks), max(clocks)) if varies else None
