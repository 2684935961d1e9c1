"""Estimates of a session's time, from earlier sessions and from its tests so far.

A time is announced as one number only if the least and the most that it may be differ by a factor of two at most.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping

from pytest_tfperf.bench.rerun_queue import runs_missing
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.judging.common_drift import MIN_TESTS
from pytest_tfperf.judging.confirmation import RUN_STAGES
from pytest_tfperf.judging.new_baselines import CONTROLS
from pytest_tfperf.judging.pairs import MIN_PAIRS, MOST_PAIRS
from pytest_tfperf.judging.target import MOST_RUNS
from pytest_tfperf.session.state import SessionState

Span = tuple[float, float]
"""The least and the most seconds that something may take."""

# A run of a test that was never timed: of a small program, and of half a minute each of warm-up and timed steps with as
# much of the rest. Controls need one number: mostly the start, compilation, and the step's profile.
_GUESSED: Span = (1.0, 120.0)
_GUESSED_SECONDS = 15.0
_GUESSED_SECONDS_ON_CPU = 5.0
_ALIKE = 2.0  # times: how far apart the tests of one function are taken to be
# Further runs of a test, before there is a history of confirmations: a test in twenty wants two.
_PRIOR_RUNS, _PRIOR_MEASUREMENTS = 0.1, 20
_SMOKE: Span = (1.0, 30.0)  # a worker, a compilation, a window


def announced_seconds(session: SessionState) -> Span:
    """The seconds of the session if no test is in doubt, and no runs of a recording differ."""
    spans = [span or _GUESSED for span in spans_of_each_run(session).values()]
    if session.settings.smoke:
        return _SMOKE[0] * len(spans), _SMOKE[1] * len(spans)
    runs, limit = _least_runs(session) + _confirmations(session), _limit_of_a_test(session)
    least, most = (math.fsum(min(runs * span[end], limit) for span in spans) for end in (0, 1))
    return least, most


def most_seconds(session: SessionState) -> float:
    """Seconds of the session if its longest test is in doubt; of a recording, if all runs differ too much."""
    settings, (_, announced) = session.settings, announced_seconds(session)
    if settings.smoke:
        return announced
    spans = spans_of_each_run(session)
    if session.measuring.launchers.other_side is not None:
        runs, limit = _most_runs(session), _limit_of_a_test(session)
        return max(announced, math.fsum(min(runs * (span or _GUESSED)[1], limit) for span in spans.values()))
    if settings.update_baselines:
        return 2 * announced  # new_baselines.wants: at most twice as many
    # A first run ends early where it is good, so the longest of earlier sessions tells what a further run takes.
    return announced + (_most_runs(session) - 1) * max([0.0, *_longest_runs(session, spans)])


def seconds_of_controls(session: SessionState) -> float:
    """Seconds that the controls of a recording of few rows will probably take, by what a run of its tests takes.

    0 where none is taken: other sessions, many tests, and a machine without rows.
    """
    tests, settings = session.measuring.machine.runnable, session.settings
    if not (settings.update_baselines and 0 < len(tests) < MIN_TESTS and session.measuring.has_rows):
        return 0.0
    guesses = {test.id: _GUESSED_SECONDS_ON_CPU if test.cpu else _GUESSED_SECONDS for test in tests}
    of_runs = run_seconds(guesses, known_seconds(session), _spent(session))
    return (settings.runs + 1) * CONTROLS * statistics.fmean(of_runs.values())


def _least_runs(session: SessionState) -> int:
    """How many runs each test takes if nothing is in doubt."""
    if session.measuring.launchers.other_side is not None:
        return 2 * MIN_PAIRS
    return session.settings.runs if session.settings.update_baselines else 1


def _most_runs(session: SessionState) -> int:
    """How many runs the session's rules take of a test in doubt."""
    if (other := session.measuring.launchers.other_side) is not None:
        return 2 * other.terms.effort.max_pairs
    if session.settings.update_baselines:
        return 2 * session.settings.runs
    if session.measuring.has_rows:
        references = session.measuring.launchers.references
        return 1 + 2 * MOST_PAIRS if references is not None and references.serves_any else RUN_STAGES[-1]
    return 1 if session.settings.require_baseline else MOST_RUNS


def _limit_of_a_test(session: SessionState) -> float:
    """The seconds after which a comparison begins no further pair; others have no limit."""
    other = session.measuring.launchers.other_side
    return math.inf if other is None else other.terms.effort.max_seconds


def seconds_left(session: SessionState) -> Span | None:
    """The seconds that the session will still take: tests that have not ended, and the runs that others want.

    None if a test is left that was never timed, here or in an earlier session, nor any of its function.
    """
    if session.settings.smoke:
        return None
    queue, progress = session.queue, session.progress
    # Of tests that are judged alone one may be in doubt; of others each may take all of its runs.
    is_judged = session.measuring.launchers.other_side is None and not session.settings.update_baselines
    least_runs, most_runs, limit = _least_runs(session), _most_runs(session), _limit_of_a_test(session)
    least = most = 0.0
    waiting = []
    for test, span in spans_of_each_run(session).items():
        if results := queue.results_of(test):
            for result in results:
                missing, one = runs_missing(result), seconds_of_a_run(result)
                is_open = missing or not result.is_decided
                least += missing * one
                most += max(missing, most_runs - result.workers) * one if is_open else 0.0
        elif test == progress.test or not queue.has_begun(test):
            if span is None:
                return None
            waiting.append(test)
            spent = progress.seconds_in(test)
            least += max(0.0, min(least_runs * span[0], limit) - spent)
            most += max(0.0, min((1 if is_judged else most_runs) * span[1], limit) - spent)
    if is_judged:
        most += (most_runs - 1) * max([0.0, *_longest_runs(session, waiting)])
    return least, most


def _longest_runs(session: SessionState, tests: Iterable[str]) -> list[float]:
    return [session.measuring.earlier.longest_seconds.get(test, 0.0) for test in tests]


def spans_of_each_run(session: SessionState) -> dict[str, Span | None]:
    """The seconds of one run of each test; None of a test that was never timed, nor any of its function."""
    timed = _at_this_pace(known_seconds(session), _spent(session))
    spans: dict[str, Span | None] = {}
    for test in session.measuring.machine.runnable:
        if seconds := timed.get(test.id):
            spans[test.id] = seconds, seconds
            continue
        function = f"{test.id.partition('[')[0]}["
        alike = [seconds for other, seconds in timed.items() if other.startswith(function)]
        spans[test.id] = (min(alike) / _ALIKE, max(alike) * _ALIKE) if alike else None
    return spans


def known_seconds(session: SessionState) -> Mapping[str, float]:
    """Seconds that a run of each test took last, beside another side where this session has one."""
    earlier = session.measuring.earlier
    alone, beside = earlier.seconds, earlier.seconds_of_interleaved
    return {**alone, **beside} if session.is_compared else {**beside, **alone}


def _spent(session: SessionState) -> dict[str, float]:
    """Seconds that a run of each test took in this session."""
    spent: dict[str, float] = {}
    for result in session.queue.results:
        spent[result.test] = spent.get(result.test, 0.0) + seconds_of_a_run(result)
    return spent


def _confirmations(session: SessionState) -> float:
    """Further runs that a test will probably need until it is decided, estimated from earlier sessions."""
    if session.settings.update_baselines or session.measuring.launchers.other_side is not None:
        return 0.0  # a comparison takes all of its pairs at once
    if not (session.measuring.has_rows or known_seconds(session)):  # a first session has nothing to judge against
        return 0.0
    runs, measurements = session.measuring.earlier.confirmations
    return (runs + _PRIOR_RUNS * _PRIOR_MEASUREMENTS) / (measurements + _PRIOR_MEASUREMENTS)


_LEAST_FOR_PACE = 3  # tests: the first one also imports TensorFlow


def run_seconds(
    guesses: Mapping[str, float], known: Mapping[str, float], spent: Mapping[str, float]
) -> dict[str, float]:
    """Seconds that one run of each test will probably take.

    A test that was never timed is expected to take as long as tests of the same function, of the same file, or as any
    test.

    Args:
        guesses: a guess for each test, used if nothing is known.
        known: seconds of a run in earlier sessions.
        spent: seconds of a run in this session.
    """
    timed = _at_this_pace(known, spent)
    return {test: timed.get(test) or _alike(test, timed) or guess for test, guess in guesses.items()}


def _at_this_pace(known: Mapping[str, float], spent: Mapping[str, float]) -> dict[str, float]:
    """Times of this session, and those of earlier sessions scaled by how fast this session is."""
    both = known.keys() & spent.keys()
    pace = 1.0
    if len(both) >= _LEAST_FOR_PACE:
        pace = math.fsum(spent[test] for test in both) / math.fsum(known[test] for test in both)
    return {test: seconds * pace for test, seconds in known.items()} | dict(spent)


def seconds_of_a_run(result: Measurement) -> float:
    """Seconds of one worker, with its start and compilation."""
    return result.seconds / result.workers


def _alike(test: str, timed: Mapping[str, float]) -> float | None:
    """The mean time of the tests that resemble this one most; None if no test was timed."""
    function, file = test.partition("[")[0], test.partition("::")[0]
    for prefix in (f"{function}[", f"{file}::", ""):
        if alike := [seconds for other, seconds in timed.items() if other.startswith(prefix)]:
            return statistics.fmean(alike)
    return None
