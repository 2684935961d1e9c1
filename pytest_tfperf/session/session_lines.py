"""Gathers from a session what `reports/summary.py` words before its first test and after its last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import starmap

from pytest_tfperf.bench.controls import ControlledRecording
from pytest_tfperf.bench.gpu_warm_up import Warmed
from pytest_tfperf.bench.rerun_queue import runs_missing
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.rerun_command import recording_option
from pytest_tfperf.core.session_verdicts import red_machines
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.judging.breakdown import matmul_change
from pytest_tfperf.judging.common_drift import MIN_TESTS
from pytest_tfperf.judging.new_baselines import CONTROLS, RUNS
from pytest_tfperf.reports import summary
from pytest_tfperf.reports.measurement_table import Shown
from pytest_tfperf.reports.numbers import change, counted, duration
from pytest_tfperf.reports.run import straggler_text
from pytest_tfperf.reports.session_verdicts import fact_of, text_of
from pytest_tfperf.reports.summary import required, unrecorded
from pytest_tfperf.session.expected_time import (
    announced_seconds,
    known_seconds,
    most_seconds,
    seconds_left,
    seconds_of_controls,
    spans_of_each_run,
)
from pytest_tfperf.session.state import SessionState


def header(session: SessionState) -> list[str]:
    """The machine, the selected tests, and remarks about this session."""
    remarks = session.remark_lines
    settings, selection = session.settings, session.selection
    measuring = session.measuring
    tests = [test.id for test in measuring.machine.runnable]
    least, most = announced_seconds(session)
    of_controls = seconds_of_controls(session)
    known = tests if settings.smoke else known_seconds(session)
    session.progress.expect(len(tests), lambda: seconds_left(session))
    lines = summary.before(
        measuring.machine.topology.machine,
        len(tests),
        (least + of_controls, most + of_controls),
        sum(test not in known for test in tests),
        most_seconds=most_seconds(session) + of_controls,
        recording=RUNS if settings.update_baselines else 0,
        controls=CONTROLS if of_controls else 0,
        baselines=settings.shown_baselines,
        smoke=settings.smoke,
        inject_slowdown=settings.inject_slowdown,
        slowed=[test for test in settings.inject_slowdown_tests if test in selection],
        against=other.announcement if (other := measuring.launchers.other_side) else (),
    )
    said = [f"tfperf: {line}" for line in summary.lost_gpus(session.measuring.machine.topology)]
    return [*lines, *remarks, *said, *summary.refused(selection.faulty, len(selection), in_brief=True)]


def closing(session: SessionState, *, skips: bool, width: int | None = None) -> Sequence[Shown]:
    """The tables, what could not be measured, and what to do next.

    Args:
        session: that has ended.
        skips: count what kept tests from measuring, because pytest itself does not (`-rs`).
        width: the most characters of a table's line; None for any number.
    """
    selection = session.selection
    if session.settings.collects_only:
        return summary.refused(selection.faulty, len(selection))
    skipped = [*_interrupted(session), *(summary.skips(session.skipped) if skips else [])]
    if session.under_xdist:
        skipped.insert(0, summary.not_under_xdist(session.under_xdist))
    if not selection:
        return skipped
    results = session.results
    measurements = [result for result in results if result.other is None]
    compared = summary.interleaved_summary([result for result in results if result.other is not None], width)
    measured = summary.summary(
        measurements,
        baselines=session.settings.shown_baselines,
        changes=session.recorder.changes if session.settings.update_baselines else (),
        # A verdict that fails is a report of its own, in full.
        machine=[fact_of(v) if v.outcome is Outcome.REGRESSED else text_of(v) for v in session.verdicts],
        red=red_machines(session.verdicts),
        not_measured=session.errors,
        measured_nothing=session.measured_nothing,
        history_error=session.queue.history_fault or "".join(session.session.history_faults[-1:]),
        width=width,
        unrecorded=_unrecorded(session, measurements),
    )
    return [
        *compared,
        *([""] if compared and measured else []),
        *measured,
        *(_of_recording(session, measurements) if session.settings.update_baselines else ()),
        *map(_warmed, session.measuring.engine.warm_up.done),
        *_missing_profiles(measurements),
        *_not_read(measurements),
        *_ended_by_time(measurements),
        *_stragglers(measurements),
        *(
            f"{test}: its reference environment failed, so that only fresh runs could confirm a slowdown: {why}"
            for test, why in session.measuring.judge.reference_failures
        ),
        *(summary.lost_gpus(session.measuring.machine.topology) if session.measuring.machine.is_discovered else ()),
        *summary.other_matmul_rate(matmul_change(measurements)),
        *(f"ranks: {refusal}" for refusal in (session.nodes.refusals if session.nodes else ())),
        *session.uncompared(with_output=True),
        *skipped,
        *(summary.not_run(session.not_run) if session.settings.require_baseline else ()),
    ]


def _interrupted(session: SessionState) -> list[str]:
    """The test that was interrupted, and where to look for what it did."""
    if not session.interrupted:
        return []
    log = session.newest_log
    return [f"interrupted in {session.interrupted}{f': its log is {log}' if log else ''}"]


def why_again(session: SessionState, test: str) -> str:
    """Why a test runs once more; "" in its first run."""
    results = session.queue.results_of(test)
    missing = sum(map(runs_missing, results))
    if session.settings.update_baselines or not any(not result.is_decided for result in results):
        return ""
    return f"in doubt: {counted(missing, 'more run')} at least" if missing else "in doubt"


def _of_recording(session: SessionState, measurements: Sequence[Measurement]) -> list[str]:
    recorder = session.recorder
    return [
        *(f"reference environment: {warning}" for warning in recorder.warnings),
        *starmap(_controlled, recorder.controlled.items()),
        *_recorded_apart(*recorder.apart),
        *_not_recorded(measurements),
    ]


def _not_recorded(measurements: Sequence[Measurement]) -> list[str]:
    unfinished = len({m.test for m in measurements if runs_missing(m)})
    if not unfinished:
        return []
    return [
        f"{counted(unfinished, 'test')} not recorded: the session ended before all their runs. Their rows are as before"
    ]


def _recorded_apart(recorded: int, others: int) -> list[str]:
    # Runs of few tests come in quick succession, and share whatever the machine did then.
    if not recorded or recorded >= MIN_TESTS or not others:
        return []
    rows = counted(recorded, "workload")
    return [
        f"{rows} recorded apart from the {others} others of this machine: what it did in these minutes, such as its "
        f"temperature, is part of the new figures alone. To record all alike: pytest {recording_option()}"
    ]


def _controlled(machine: str, controlled: ControlledRecording) -> str:
    """The change of the controls beside a recording of few rows, or that there were none."""
    failed = "".join(f". {name} could not serve as a control: {why}" for name, why in controlled.failures.items())
    if not controlled.runs:
        why, what = "no other workload has a row", "part of them"
        if controlled.others:  # else there is nothing that could be recorded with them
            why = f"none of the {counted(controlled.others, 'other')} with a row could run beside them"
            what = f"part of the new figures alone{failed}. To record all alike: pytest {recording_option()}"
        return (
            f"new rows of {machine}: recorded without controls, because {why}: what the machine did in these minutes, "
            f"such as its temperature, is {what}"
        )
    others = counted(len(controlled.controls), "other recorded workload")
    moved = (
        f"meanwhile {others} changed by {change(math.expm1(controlled.change))} against their rows, in the median of "
        f"{counted(controlled.runs, 'run')}: {', '.join(controlled.controls)}{failed}"
    )
    if controlled.change and not controlled.correction:
        return (
            f"new rows of {machine}: not corrected, although {moved}. That is more than sessions differ, so all tests "
            f"may have changed: record them in one session: pytest {recording_option()}"
        )
    return f"new rows of {machine}: corrected by {change(math.expm1(controlled.correction))}, because {moved}"


def _warmed(warmed: Warmed) -> str:
    text = f"GPUs were warmed up from {warmed.before} to {warmed.after} C in {duration(warmed.seconds)}"
    if warmed.is_steady:
        return text
    return f"{text}, and still became warmer: the first tests may be faster than the others (ini tfperf_gpu_warmup)"


def _missing_profiles(measurements: Sequence[Measurement]) -> list[str]:
    """Baselines without a profile: later regressions can't say which operations grew."""
    return [
        f"{m.test}: its baseline has no profile: {m.profile.fault or 'the trace has no TensorFlow operations'}"
        for m in measurements
        if m.recording is not None and m.profile is not None and not m.profile.ops
    ]


def _stragglers(measurements: Sequence[Measurement]) -> list[str]:
    """Ranks that hold up the others, also where the throughput is its baseline's, or becomes a baseline."""
    known = [(m.test, straggler_text(m.breakdown)) for m in measurements if m.breakdown is not None]
    return [f"{test}: straggler: {text}" for test, text in known if text]


def _not_read(measurements: Sequence[Measurement]) -> list[str]:
    """Lines of users' programs that name a rate and were not read: silence could hide slow readings."""
    return [
        f"{m.test}: {notes[-1]}" for m in measurements if (notes := [run.not_read for run in m.runs if run.not_read])
    ]


def _ended_by_time(measurements: Sequence[Measurement]) -> list[str]:
    """Tests whose runs ended by time: fewer windows are known less precisely."""
    windows = {m.test: len(run.windows) for m in measurements for run in m.runs if run.ended_by_time}
    if not windows:
        return []
    least = min(windows, key=windows.__getitem__)
    return [
        f"{counted(len(windows), 'test')} ended by time, before all steps: {least} after "
        f"{counted(windows[least], 'window')}. Where its interval is too wide, give the test more steps (steps=), "
        "or all tests more time: -o tfperf_max_time=SECONDS"
    ]


def _unrecorded(session: SessionState, measurements: Sequence[Measurement]) -> Sequence[Shown]:
    settings, facts = session.settings, session.unrecorded
    if facts is None:
        return []
    if settings.require_baseline:
        return [required(facts, baselines=settings.shown_baselines)]
    timed = session.measuring.earlier.seconds
    return unrecorded(
        facts,
        measurements,
        measured_before=sum(m.test in timed for m in measurements if m.outcome is Outcome.NO_BASELINE),
        baselines=settings.shown_baselines,
        command=settings.rerun.recording,
        seconds=RUNS * math.fsum(span[0] for span in spans_of_each_run(session).values() if span),
    )
