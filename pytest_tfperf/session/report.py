"""The lines that a session prints before its first test and after its last."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from pytest_tfperf.bench.gpu_warm_up import Warmed
from pytest_tfperf.bench.rerun_queue import runs_missing
from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.session_verdicts import red_machines
from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.judging.common_drift import MIN_TESTS
from pytest_tfperf.judging.confirmation import PAIR_STAGES, RUN_STAGES
from pytest_tfperf.judging.reference import MOST_RUNS
from pytest_tfperf.judging.unrecorded import unrecorded_tests
from pytest_tfperf.reports import summary
from pytest_tfperf.reports.breakdown import straggler_text
from pytest_tfperf.reports.measurement_table import Shown
from pytest_tfperf.reports.numbers import counted, duration
from pytest_tfperf.reports.session_verdicts import fact_of, text_of
from pytest_tfperf.reports.summary import required, unrecorded
from pytest_tfperf.session.compared import RUNS_OF_A_COMPARISON
from pytest_tfperf.session.feature_hooks import features
from pytest_tfperf.session.session import Session

# Where the history knows no test: mostly the start, compilation, and the step's profile.
_GUESSED_SECONDS = 15.0
_GUESSED_SECONDS_ON_CPU = 5.0
# Further runs of a test, before there is a history of confirmations: one test in twenty wants two.
_PRIOR_RUNS, _PRIOR_MEASUREMENTS = 0.1, 20
_SMOKE_SECONDS = 3.0  # a worker, a compilation, a window: 2.6 s on average over the CPU tests on two slow cores


def header(session: Session) -> list[str]:
    """The machine, the selected tests, and remarks about this session."""
    remarks = session.remark_lines
    settings, selection = session.settings, session.selection
    if not selection or settings.collects_only:
        return remarks
    measuring = session.measuring
    each = expected_seconds(session)
    known = each if settings.smoke else session.known_seconds
    session.progress.expect(len(measuring.machine.runnable), lambda: seconds_left(session))
    lines = summary.before(
        measuring.machine.topology.machine,
        len(measuring.machine.runnable),
        math.fsum(each.values()),
        sum(test not in known for test in each),
        most_seconds=_most_seconds(session, each),
        recording=settings.runs if settings.update_baselines else 0,
        baselines=settings.shown_baselines,
        smoke=settings.smoke,
        inject_slowdown=settings.inject_slowdown,
        hold=settings.hold,
        against=other.announcement if (other := measuring.launchers.other_side) else (),
    )
    said = [f"tfperf: {line}" for line in session.remarks_of_features(in_brief=True)]
    return [*lines, *remarks, *said, *summary.refused(selection.faulty, len(selection), in_brief=True)]


def closing(session: Session, *, skips: bool, width: int | None = None) -> Sequence[Shown]:
    """The tables, what could not be measured, and what to do next.

    Args:
        session: that has ended.
        skips: count what kept tests from measuring, because pytest itself does not (`-rs`).
        width: the most characters of a table's line; None for any number.
    """
    selection = session.selection
    if session.settings.collects_only:
        return summary.refused(selection.faulty, len(selection))
    skipped = summary.skips(session.skipped) if skips else []
    if session.under_xdist:
        skipped.insert(0, summary.not_under_xdist(session.under_xdist))
    if not selection:
        return skipped
    results = session.results
    measurements = [one for one in results if isinstance(one, Measurement)]
    compared = summary.comparison_summary([one for one in results if isinstance(one, Comparison)], width)
    measured = summary.summary(
        measurements,
        baselines=session.settings.shown_baselines,
        changes=session.recorder.changes,
        # What fails is a report of its own, in full.
        machine=[fact_of(one) if one.outcome is Outcome.REGRESSED else text_of(one) for one in session.verdicts],
        red=red_machines(session.verdicts),
        not_measured=len(session.not_measured),
        measured_nothing=session.measured_nothing,
        history_error=session.queue.history_fault or session.measuring.history_fault,
        width=width,
        unrecorded=_unrecorded(session, measurements),
    )
    return [
        *compared,
        *([""] if compared and measured else []),
        *measured,
        *(f"reference environment: {warning}" for warning in session.recorder.warnings),
        *_recorded_apart(*session.recorder.apart),
        *map(_warmed, session.measuring.engine.warm_up.done),
        *_missing_profiles(measurements),
        *_not_read(measurements),
        *_stragglers(measurements),
        *(
            f"{test}: confirmed by fresh runs, because its reference environment failed: {why}"
            for test, why in session.measuring.judge.reference_failures
        ),
        *session.remarks_of_features(in_brief=False),
        *skipped,
    ]


def outputs(session: Session) -> Iterator[str]:
    """Let features write what was asked for; gives lines for the user, what was damaged in the history among them."""
    settings = session.settings
    if not session.selection and all(settings.of(one) == one.default for one in features().settings):
        return  # nobody asked for anything, and what writes takes time to import
    if session.keeps_history:
        yield from (line for line in (session.history.moved_aside, str(session.history.unread)) if line)
    yield from features().tell(
        "session_ended",
        settings=settings,
        record=session.record,
        history=session.history,
        baselines=session.baselines,
    )


def expected_seconds(session: Session) -> dict[str, float]:
    """Seconds that each test that can run here will probably take, with its confirmation."""
    if session.settings.smoke:
        return {test.id: _SMOKE_SECONDS for test in session.measuring.machine.runnable}
    settings = session.settings
    runs = settings.runs if settings.update_baselines else 1 + _confirmations(session)
    return {test: runs * seconds for test, seconds in _run_seconds(session).items()}


def _most_seconds(session: Session, each: Mapping[str, float]) -> float:
    """Seconds of the session if its longest test is in doubt; of a recording, if all runs differ too much."""
    settings, expected = session.settings, math.fsum(each.values())
    if settings.smoke:
        return expected
    if (other := session.measuring.launchers.other_side) is not None:
        return max(expected, len(each) * other.terms.effort.max_seconds)
    if settings.update_baselines:
        return 2 * expected  # new_baselines.wants: at most twice as many
    # A first run ends early where it is good, so the longest of earlier sessions tells what a further run takes.
    longest = max((session.longest_seconds.get(test, 0.0) for test in each), default=0.0)
    return expected + (_most_runs(session) - 1) * longest


def _most_runs(session: Session) -> int:
    """How many runs the session's rules take of a test in doubt."""
    if session.has_rows:
        references = session.measuring.launchers.references
        return 1 + 2 * PAIR_STAGES[-1] if references is not None and references.serves_any else RUN_STAGES[-1]
    return 1 if session.settings.require_baseline else MOST_RUNS


def why_again(session: Session, test: str) -> str:
    """Why a test runs once more; "" in its first run."""
    results = session.queue.results_of(test)
    missing = sum(map(runs_missing, results))
    if session.settings.update_baselines or not any(not result.is_decided for result in results):
        return ""
    return f"in doubt: {counted(missing, 'more run')} at least" if missing else "in doubt"


def has_time_for(session: Session, test: str) -> bool:
    """Whether a test may begin where the time is limited; the first one may, and one that runs again.

    A selected test may no longer fit if the estimates were wrong or the machine is slower today.
    """
    queue = session.queue
    results = list(queue.results)
    if session.choice is None or not results or queue.has_begun(test):
        return True
    wanted = math.fsum(runs_missing(result) * seconds_of_a_run(result) for result in results)
    return session.elapsed_seconds + wanted + expected_seconds(session).get(test, 0.0) <= session.choice.limit_seconds


def _recorded_apart(recorded: int, others: int) -> list[str]:
    """Runs of few tests follow one another, and share whatever the machine did then."""
    if not recorded or recorded >= MIN_TESTS or not others:
        return []
    rows = counted(recorded, "workload")
    return [
        f"{rows} recorded apart from the {others} others of this machine: what it did in these minutes, such as its "
        "temperature, is part of the new figures alone. To record all alike: pytest --update-baselines"
    ]


def _warmed(warmed: Warmed) -> str:
    text = f"GPUs were warmed up from {warmed.before} to {warmed.after} C in {duration(warmed.seconds)}"
    if warmed.is_steady:
        return text
    return f"{text}, and still became warmer: the first tests may be faster than the others (ini tfperf_gpu_warmup)"


def _missing_profiles(measurements: Sequence[Measurement]) -> list[str]:
    """Baselines without a profile: later regressions can't say which operations grew."""
    return [
        f"{one.test}: its baseline has no profile: {one.profile.fault or 'the trace has no TensorFlow operations'}"
        for one in measurements
        if one.recording is not None and one.profile is not None and not one.profile.ops
    ]


def _stragglers(measurements: Sequence[Measurement]) -> list[str]:
    """A rank that holds up the others, also where the throughput is as its baseline's, or becomes one."""
    return [f"{one.test}: straggler: {text}" for one in measurements if (text := straggler_text(one.breakdown))]


def _not_read(measurements: Sequence[Measurement]) -> list[str]:
    """Lines of users' programs that name a rate and were not read: silence could hide slow readings."""
    return [
        f"{one.test}: {notes[-1]}"
        for one in measurements
        if (notes := [run.not_read for run in one.runs if run.not_read])
    ]


def seconds_left(session: Session) -> float:
    """How long the session will probably still take: tests that have not begun, and the runs that others want."""
    queue, each, share = session.queue, _run_seconds(session), 1 + _confirmations(session)
    left = 0.0
    for test, seconds in each.items():
        if results := queue.results_of(test):
            left += math.fsum(runs_missing(result) * seconds_of_a_run(result) for result in results)
        elif test == session.progress.test or not queue.has_begun(test):
            left += seconds * (session.settings.runs if session.settings.update_baselines else share)
    return left


def _unrecorded(session: Session, measurements: Sequence[Measurement]) -> Sequence[Shown]:
    settings = session.settings
    found = None if settings.update_baselines else unrecorded_tests(measurements, Tolerance.of(settings.tolerance))
    if found is None:
        return []
    if settings.require_baseline:
        return [required(found, baselines=settings.shown_baselines)]
    return unrecorded(
        found,
        measurements,
        baselines=settings.shown_baselines,
        command=settings.rerun.recording,
        seconds=settings.runs * math.fsum(_run_seconds(session).values()),
    )


def _run_seconds(session: Session) -> dict[str, float]:
    """Seconds that one run of each test will probably take."""
    runs = 1 if session.measuring.launchers.other_side is None else RUNS_OF_A_COMPARISON
    guesses = {
        test.id: runs * (_GUESSED_SECONDS_ON_CPU if test.cpu else _GUESSED_SECONDS)
        for test in session.measuring.machine.runnable
    }
    spent: dict[str, float] = {}
    for result in session.queue.results:
        spent[result.test] = spent.get(result.test, 0.0) + seconds_of_a_run(result)
    return run_seconds(guesses, session.known_seconds, spent)


def _confirmations(session: Session) -> float:
    """Further runs that a test will probably need until it is decided, estimated from earlier sessions."""
    if session.measuring.launchers.other_side is not None:  # a comparison takes all of its pairs at once
        return 0.0
    if not (session.has_rows or session.known_seconds):  # a first session has nothing to judge against
        return 0.0
    runs, measurements = session.known_confirmations
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


def seconds_of_a_run(result: Measurement | Comparison) -> float:
    """Seconds of one worker, with its start and compilation; a comparison takes all of its pairs in one run."""
    return result.seconds / result.workers if isinstance(result, Measurement) else result.seconds


def _alike(test: str, timed: Mapping[str, float]) -> float | None:
    """The mean time of the tests that resemble this one most; None if no test was timed."""
    function, file = test.partition("[")[0], test.partition("::")[0]
    for prefix in (f"{function}[", f"{file}::", ""):
        if found := [seconds for other, seconds in timed.items() if other.startswith(prefix)]:
            return statistics.fmean(found)
    return None
