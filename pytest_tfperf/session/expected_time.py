"""Estimates of a session's time, from earlier sessions and from its tests so far.

A time is announced as one number only if the least and the most that it may be differ by a factor of two at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from pytest_tfperf.bench.rerun_queue import runs_missing
from pytest_tfperf.bench.session import Session
from pytest_tfperf.core.baseline import RUNS
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.judging.confirmation import RUN_STAGES
from pytest_tfperf.judging.new_baselines import CONTROLS
from pytest_tfperf.judging.pairs import MIN_PAIRS, MOST_PAIRS
from pytest_tfperf.judging.session_effects import MIN_TESTS
from pytest_tfperf.judging.target import MOST_RUNS
from pytest_tfperf.session.state import SessionState

Span = tuple[float, float]
"""The least and the most seconds that something may take."""

# A run of a test that was never timed: of a small program, and of half a minute each of warm-up and timed steps with as
# much of the rest.
_GUESSED: Span = (1.0, 120.0)
_ALIKE = 2.0  # times: how far apart the tests of one function are taken to be
# Further runs of a test, before there is a history of confirmations: a test in twenty wants two.
_PRIOR_RUNS, _PRIOR_MEASUREMENTS = 0.1, 20
_SMOKE: Span = (1.0, 30.0)  # a worker, a compilation, a window


def expected_time(state: SessionState) -> tuple[float, float, float]:
    """The least and the most seconds of the session if no test is in doubt, and the most if its longest test is.

    Of a recording the last is the time if all runs differ too much, and all have the time of its controls.
    """
    session, settings = state.session, state.settings
    spans = {test: span or _GUESSED for test, span in spans_of_each_run(state).items()}
    if settings.smoke:
        return _SMOKE[0] * len(spans), _SMOKE[1] * len(spans), _SMOKE[1] * len(spans)
    least_runs, most_runs, limit = _runs_of_a_test(session)
    runs = float(least_runs)
    is_judged = session.other_side is None and not settings.update_baselines
    if is_judged and (session.has_rows or known_seconds(state)):  # a first session has nothing to judge against
        again, measurements = session.confirmations
        runs += (again + _PRIOR_RUNS * _PRIOR_MEASUREMENTS) / (measurements + _PRIOR_MEASUREMENTS)
    least, most = (math.fsum(min(runs * span[end], limit) for span in spans.values()) for end in (0, 1))
    if is_judged:
        return least, most, most + _in_doubt(session, spans, most_runs)
    in_doubt = max(most, math.fsum(min(most_runs * span[1], limit) for span in spans.values()))
    if not takes_controls(state):
        return least, most, in_doubt
    # Each takes as long as a run of a test, in the mean, once more than these.
    rounds = CONTROLS * (RUNS + 1) / len(spans)
    low, high = (rounds * math.fsum(span[end] for span in spans.values()) for end in (0, 1))
    return least + low, most + high, in_doubt + high


def _in_doubt(session: Session, tests: Iterable[str], most_runs: int) -> float:
    """Seconds of further runs if the longest of these tests is in doubt.

    A first run ends early where it is good, so the longest of earlier sessions tells what a further run takes.
    """
    return (most_runs - 1) * max([0.0, *(max(session.run_seconds.get(test, (0.0,))) for test in tests)])


def takes_controls(state: SessionState) -> bool:
    """Whether other workloads run beside a recording: of few tests, on a machine that has rows."""
    return (
        bool(state.settings.update_baselines) and 0 < len(state.session.runnable) < MIN_TESTS and state.session.has_rows
    )


def _runs_of_a_test(session: Session) -> tuple[int, int, float]:
    """The runs that each test takes, those of a test in doubt, and the seconds after which no further pair begins."""
    settings = session.settings
    if session.other_side is not None:
        terms = session.other_side.terms
        return 2 * MIN_PAIRS, 2 * terms.max_pairs, terms.max_seconds
    if settings.update_baselines:
        return RUNS, 2 * RUNS, math.inf  # new_baselines.wants: at most twice as many
    if session.has_rows:
        has_references = session.references is not None and session.references.serves_any
        return 1, 1 + 2 * MOST_PAIRS if has_references else RUN_STAGES[-1], math.inf
    return 1, 1 if settings.require_baseline else MOST_RUNS, math.inf


def seconds_left(state: SessionState) -> Span | None:
    """The seconds that the session will still take: tests that have not ended, and the runs that others want.

    None if a test is left that was never timed, here or in an earlier session, nor any of its function.
    """
    if state.settings.smoke:
        return None
    session, queue, progress = state.session, state.queue, state.session.progress
    # Of tests that are judged alone one may be in doubt; of others each may take all of its runs.
    is_judged = session.other_side is None and not session.settings.update_baselines
    least_runs, most_runs, limit = _runs_of_a_test(session)
    least = most = 0.0
    waiting = []
    for test, span in spans_of_each_run(state).items():
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
        most += _in_doubt(session, waiting, most_runs)
    return least, most


def spans_of_each_run(state: SessionState) -> dict[str, Span | None]:
    """The seconds of one run of each test; None of a test that was never timed, nor any of its function."""
    timed = _at_this_pace(state)
    spans: dict[str, Span | None] = {}
    for test in state.session.runnable:
        if seconds := timed.get(test.id):
            spans[test.id] = seconds, seconds
            continue
        function = f"{test.id.partition('[')[0]}["
        alike = [seconds for other, seconds in timed.items() if other.startswith(function)]
        spans[test.id] = (min(alike) / _ALIKE, max(alike) * _ALIKE) if alike else None
    return spans


def known_seconds(state: SessionState) -> Mapping[str, float]:
    """Seconds that a run of each test took last, beside another side where this session has one."""
    alone = {test: seconds[0] for test, seconds in state.session.run_seconds.items()}
    beside = state.session.seconds_of_interleaved
    return {**alone, **beside} if state.is_compared else {**beside, **alone}


_LEAST_FOR_PACE = 3  # tests: the first one also imports TensorFlow


def _at_this_pace(state: SessionState) -> dict[str, float]:
    """Seconds of a run of each test in this session, else in earlier ones, scaled by how fast this session is."""
    known, spent = known_seconds(state), dict[str, float]()
    for result in state.queue.results:
        spent[result.test] = spent.get(result.test, 0.0) + seconds_of_a_run(result)
    both = known.keys() & spent.keys()
    pace = 1.0
    if len(both) >= _LEAST_FOR_PACE:
        pace = math.fsum(spent[test] for test in both) / math.fsum(known[test] for test in both)
    return {test: seconds * pace for test, seconds in known.items()} | spent


def seconds_of_a_run(result: Measurement) -> float:
    """Seconds of one worker, with its start and compilation."""
    return result.seconds / result.workers
