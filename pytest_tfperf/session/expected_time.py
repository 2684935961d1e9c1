"""Estimates of a session's time, from earlier sessions and from its tests so far."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

from pytest_tfperf.bench.rerun_queue import runs_missing
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.judging.common_drift import MIN_TESTS
from pytest_tfperf.judging.confirmation import RUN_STAGES
from pytest_tfperf.judging.new_baselines import CONTROLS
from pytest_tfperf.judging.pairs import MOST_PAIRS
from pytest_tfperf.judging.target import MOST_RUNS
from pytest_tfperf.session.session import Session

# Where the history knows no test, at least: mostly the start, compilation, and the step's profile.
_GUESSED_SECONDS = 15.0
_GUESSED_SECONDS_ON_CPU = 5.0
# And at most, for most tests: half a minute each of warm-up and timed steps, and as much of the rest.
_MOST_GUESSED_SECONDS = 120.0
# Further runs of a test, before there is a history of confirmations: a test in twenty wants two.
_PRIOR_RUNS, _PRIOR_MEASUREMENTS = 0.1, 20
_RUNS_OF_A_COMPARISON = 6  # of most comparisons: two in each of the least pairs that decide
_SMOKE_SECONDS = 3.0  # a worker, a compilation, a window: 2.6 s on average over the CPU tests on two slow cores


def expected_seconds(session: Session) -> dict[str, float]:
    """Seconds that each test that can run here will probably take, with its confirmation."""
    if session.settings.smoke:
        return {test.id: _SMOKE_SECONDS for test in session.measuring.machine.runnable}
    settings = session.settings
    runs = settings.runs if settings.update_baselines else 1 + _confirmations(session)
    return {test: runs * seconds for test, seconds in seconds_of_each_run(session).items()}


def most_seconds(session: Session, each: Mapping[str, float]) -> float:
    """Seconds of the session if its longest test is in doubt; of a recording, if all runs differ too much."""
    settings, expected = session.settings, math.fsum(each.values())
    if settings.smoke:
        return expected
    if (other := session.measuring.launchers.other_side) is not None:
        return max(expected, len(each) * other.terms.effort.max_seconds)
    if settings.update_baselines:
        return 2 * max(expected, seconds_if_slow(session))  # new_baselines.wants: at most twice as many
    # A first run ends early where it is good, so the longest of earlier sessions tells what a further run takes.
    longest = max((session.measuring.earlier.longest_seconds.get(test, 0.0) for test in each), default=0.0)
    return expected + (_most_runs(session) - 1) * longest


def seconds_if_slow(session: Session) -> float:
    """Seconds of a session of slow tests, where none was ever timed here; 0 where earlier sessions tell."""
    settings, tests = session.settings, len(session.measuring.machine.runnable)
    if settings.smoke or known_seconds(session):
        return 0.0
    if (other := session.measuring.launchers.other_side) is not None:
        return tests * other.terms.effort.max_seconds
    return tests * (settings.runs if settings.update_baselines else 1) * _MOST_GUESSED_SECONDS


def seconds_of_controls(session: Session) -> float:
    """Seconds that the controls of a recording of few rows will probably take, by what a run of its tests takes.

    0 where none is taken: other sessions, many tests, and a machine without rows.
    """
    each, settings = seconds_of_each_run(session), session.settings
    if not (settings.update_baselines and 0 < len(each) < MIN_TESTS and session.measuring.has_rows):
        return 0.0
    return (settings.runs + 1) * CONTROLS * statistics.fmean(each.values())


def _most_runs(session: Session) -> int:
    """How many runs the session's rules take of a test in doubt."""
    if session.measuring.has_rows:
        references = session.measuring.launchers.references
        return 1 + 2 * MOST_PAIRS if references is not None and references.serves_any else RUN_STAGES[-1]
    return 1 if session.settings.require_baseline else MOST_RUNS


def has_time_for(session: Session, test: str) -> bool:
    """Whether a test may begin where the time is limited; the first test may, and a test that runs again.

    A selected test may no longer fit if the estimates were wrong or the machine is slower today.
    """
    queue = session.queue
    results = list(queue.results)
    if session.choice is None or not results or queue.has_begun(test):
        return True
    wanted = math.fsum(runs_missing(result) * seconds_of_a_run(result) for result in results)
    return session.elapsed_seconds + wanted + expected_seconds(session).get(test, 0.0) <= session.choice.limit_seconds


def seconds_left(session: Session) -> float:
    """How long the session will probably still take: tests that have not begun, and the runs that others want.

    0 before any test was timed, here or in an earlier session.
    """
    if not (session.settings.smoke or known_seconds(session) or list(session.queue.results)):
        return 0.0
    queue, each, share = session.queue, seconds_of_each_run(session), 1 + _confirmations(session)
    left = 0.0
    for test, seconds in each.items():
        if results := queue.results_of(test):
            left += math.fsum(runs_missing(result) * seconds_of_a_run(result) for result in results)
        elif test == session.progress.test or not queue.has_begun(test):
            left += seconds * (session.settings.runs if session.settings.update_baselines else share)
    return left


def seconds_of_each_run(session: Session) -> dict[str, float]:
    """Seconds that one run of each test will probably take."""
    runs = 1 if session.measuring.launchers.other_side is None else _RUNS_OF_A_COMPARISON
    guesses = {
        test.id: runs * (_GUESSED_SECONDS_ON_CPU if test.cpu else _GUESSED_SECONDS)
        for test in session.measuring.machine.runnable
    }
    spent: dict[str, float] = {}
    for result in session.queue.results:
        spent[result.test] = spent.get(result.test, 0.0) + seconds_of_a_run(result)
    return run_seconds(guesses, known_seconds(session), spent)


def known_seconds(session: Session) -> Mapping[str, float]:
    """Seconds that a run of each test took last; or its comparison, or would take by the time of its last run."""
    earlier = session.measuring.earlier
    if not session.is_compared:
        return earlier.seconds
    guesses = {test: _RUNS_OF_A_COMPARISON * seconds for test, seconds in earlier.seconds.items()}
    return guesses | dict(earlier.seconds_of_interleaved)


def _confirmations(session: Session) -> float:
    """Further runs that a test will probably need until it is decided, estimated from earlier sessions."""
    if session.measuring.launchers.other_side is not None:  # a comparison takes all of its pairs at once
        return 0.0
    if not (session.measuring.has_rows or known_seconds(session)):  # a first session has nothing to judge against
        return 0.0
    runs, measurements = session.measuring.earlier.confirmations
    return (runs + _PRIOR_RUNS * _PRIOR_MEASUREMENTS) / (measurements + _PRIOR_MEASUREMENTS)


_LEAST_FOR_PACE = 3  # tests: the first one also imports TensorFlow


def run_seconds(
    guesses: Mapping[str, float], known: Mapping[str, float], spent: Mapping[str, float]
) -> dict[str, float]:
    """Seconds that one run of each test will probably take.

    Times of this session count most. Times of earlier sessions are scaled by how fast this session is. A test that was
    never timed is expected to take as long as tests of the same function, of the same file, or as any test.

    Args:
        guesses: a guess for each test, used if nothing is known.
        known: seconds of a run in earlier sessions.
        spent: seconds of a run in this session.
    """
    both = known.keys() & spent.keys()
    pace = 1.0
    if len(both) >= _LEAST_FOR_PACE:
        pace = math.fsum(spent[test] for test in both) / math.fsum(known[test] for test in both)
    timed = {test: seconds * pace for test, seconds in known.items()} | dict(spent)
    return {test: timed.get(test) or _alike(test, timed) or guess for test, guess in guesses.items()}


def seconds_of_a_run(result: Measurement) -> float:
    """Seconds of one worker, with its start and compilation; beside another side all pairs are taken in one run."""
    return result.seconds if result.other else result.seconds / result.workers


def _alike(test: str, timed: Mapping[str, float]) -> float | None:
    """The mean time of the tests that resemble this one most; None if no test was timed."""
    function, file = test.partition("[")[0], test.partition("::")[0]
    for prefix in (f"{function}[", f"{file}::", ""):
        if alike := [seconds for other, seconds in timed.items() if other.startswith(prefix)]:
            return statistics.fmean(alike)
    return None
