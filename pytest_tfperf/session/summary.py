"""The lines that a session prints before its first test and after its last."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice, starmap
from pathlib import Path
from typing import Final

from pytest_tfperf.bench.disturbance_guard import Warmed
from pytest_tfperf.bench.recording import ControlledRecording
from pytest_tfperf.bench.rerun_queue import runs_missing
from pytest_tfperf.core.baseline import RUNS
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.rerun_command import recording_option
from pytest_tfperf.core.session_verdicts import red_machines
from pytest_tfperf.core.verdict import Against, Outcome, Tolerance
from pytest_tfperf.judging.breakdown import matmul_change
from pytest_tfperf.judging.new_baselines import CONTROLS
from pytest_tfperf.judging.session_effects import MIN_TESTS
from pytest_tfperf.judging.unrecorded import unrecorded_tests
from pytest_tfperf.lines import Line
from pytest_tfperf.reports.baselines import recorded_table, recorded_under_load, required, unrecorded
from pytest_tfperf.reports.measurement_table import counts, figure_table, interleaved_table, is_gain, measurement_table
from pytest_tfperf.reports.numbers import change, counted, duration, percent, time_span
from pytest_tfperf.reports.run import straggler_text
from pytest_tfperf.reports.session_verdicts import fact_of, text_of
from pytest_tfperf.session.expected_time import (
    expected_time,
    known_seconds,
    seconds_left,
    spans_of_each_run,
    takes_controls,
)
from pytest_tfperf.session.state import SessionState

_MOST_NOT_RUN: Final = 3


def before(state: SessionState) -> list[str]:
    """The machine, the number of tests, the expected time, the session's special options, and remarks."""
    settings, selection, session = state.settings, state.selection, state.session
    tests = [test.id for test in session.runnable]
    least, most, in_doubt = expected_time(state)
    never_timed = 0 if settings.smoke else len(set(tests) - known_seconds(state).keys())
    session.progress.expect(len(tests), lambda: seconds_left(state))
    unknown = f" ({never_timed} never timed here)" if never_timed else ""
    time = f"{time_span(least, most)}{unknown}{_at_most(most, in_doubt, is_recording=bool(settings.update_baselines))}"
    lines = [f"{session.topology.machine}, {counted(len(tests), 'throughput test')}, {time}"]
    if settings.update_baselines:
        lines.append(f"recording baselines, {RUNS} fresh runs of each test, into {settings.shown_baselines}")
        if takes_controls(state):
            lines.append(
                f"few tests, so up to {CONTROLS} other recorded workloads run before each round and at the end"
            )
    if settings.smoke:
        lines.append("smoke run: one window of each test, no verdicts")
    if settings.inject_slowdown:
        slowed = [test for test in settings.slowed if test in selection]
        who = f"workers of {counted(len(slowed), 'test')}" if slowed else "workers"
        lines.append(f"{who} lose {percent(settings.inject_slowdown)} of their throughput on purpose")
    if session.other_side is not None:
        lines += session.other_side.announcement
    said = [f"tfperf: {line}" for line in [*lines, *state.store_remarks, *state.remarks, *_lost_gpus(state)]]
    return [*said, *refused(state, in_brief=True)]


def _at_most(expected: float, most: float, *, is_recording: bool) -> str:
    """ ", up to 3 min if a test is in doubt", minutes rounded up; "" where that is the expected time."""
    shown = time_span(0.0, most)
    if round(most) <= round(expected) or time_span(0.0, expected) == shown:
        return ""
    return f", {shown} if {'runs differ' if is_recording else 'a test is in doubt'}"


def refused(state: SessionState, *, in_brief: bool = False) -> list[str]:
    """Tests with invalid parameters: each fault once, with the first test that has it; in brief its first sentence."""
    grouped: dict[str, list[str]] = {}
    for test in state.selection.values():
        for fault in test.faults:
            grouped.setdefault(fault.brief if in_brief else str(fault), []).append(test.id)
    if not grouped:
        return []
    faulty = {test for tests in grouped.values() for test in tests}
    all_tests = counted(len(state.selection), "throughput test")
    lines = [f"tfperf: {len(faulty)} of {all_tests} have invalid parameters; each of them is an error:"]
    for text, (first, *others) in grouped.items():
        lines.append(f"  {first}{f' and {len(others)} more' if others else ''}: {text}")
    return lines


def why_again(state: SessionState, test: str) -> str:
    """Why a test runs once more; "" in its first run."""
    results = state.queue.results_of(test)
    if state.settings.update_baselines or all(result.is_decided for result in results):
        return ""
    missing = sum(map(runs_missing, results))
    return f"in doubt: {counted(missing, 'more run')} at least" if missing else "in doubt"


def after(state: SessionState, *, skips: bool, width: int | None = None) -> Sequence[Line | str]:
    """The tables, what could not be measured, and what to do next.

    Skips are counted where pytest itself does not (`-rs`). The width is the most characters of a table's line.
    """
    settings = state.settings
    if settings.collects_only:
        return refused(state)
    if not state.selection:
        return _not_run(state, skips=skips)
    session = state.session
    alone, beside = state.result.alone, state.result.interleaved
    compared: list[Line | str] = []
    if beside:
        compared = [*interleaved_table(beside, width), *figure_table(beside, width), "", _counts_line(beside)]
    measured = [*_measured(state, alone, width), *_faults(state)]
    return [
        *compared,
        *([""] if compared and measured else []),
        *measured,
        *(_of_recording(state, alone) if settings.update_baselines else ()),
        *map(_warmed, session.engine.warm_up.done),
        *_notes(alone),
        *_failed_references(state),
        *(_lost_gpus(state) if session.is_discovered else ()),
        *other_matmul_rate(matmul_change(alone)),
        *(f"ranks: {refusal}" for refusal in (session.nodes.refusals if session.nodes else ())),
        *state.uncompared(with_output=True),
        *_not_run(state, skips=skips),
    ]


def _measured(state: SessionState, measurements: Sequence[Measurement], width: int | None) -> list[Line | str]:
    """The table, the counts, the session's verdicts, the recorded rows, and what to do next."""
    if state.measured_nothing:
        return [
            "NOTHING WAS MEASURED: --tfperf-require-baseline was given, and no selected test was measured. "
            "Each test's report says why; `tfperf topology` shows the devices"
        ]
    if not measurements:
        return []
    lines: list[Line | str] = [*measurement_table(measurements, width), *figure_table(measurements, width)]
    lines += ["", _counts_line(measurements), *_thresholds(measurements)]
    # A verdict that fails is a report of its own, in full.
    verdicts = [fact_of(v) if v.outcome is Outcome.REGRESSED else text_of(v) for v in state.verdicts]
    lines += filter(None, verdicts)
    if undecided := [m for m in measurements if m.verdict and not m.verdict.is_decided]:
        why = "the session ended, or the test failed, before their last runs"
        lines.append(f"{len(undecided)} undecided: {why}. Run them again")
    return [
        *lines,
        *_next_steps(state, measurements, width),
        *_under_load(measurements),
        *_unrecorded(state, measurements),
    ]


def _faults(state: SessionState) -> list[str]:
    """The number of tests that could not be measured, and why the history lacks a part of this session."""
    lines = []
    if state.errors:
        lines.append(f"{state.errors} not measured: the error of each test says why, and what to do")
    if fault := state.queue.history_fault or "".join(state.session.history_faults[-1:]):
        lines.append(f"not in the history: {fault}")
    return lines


def _not_run(state: SessionState, *, skips: bool) -> list[str]:
    """What kept tests from running: pytest-xdist, an interruption, skips, and a selection without them."""
    lines = []
    if state.under_xdist:
        tests = counted(state.under_xdist, "throughput test")
        lines.append(
            f"NOTHING WAS MEASURED: {tests} ran under pytest-xdist, whose workers would share the machine. Run without "
            "-n, or with -n 0"
        )
    if state.interrupted:
        log = _newest_log(state)
        lines.append(f"interrupted in {state.interrupted}{f': its log is {log}' if log else ''}")
    if skips:
        most_first = sorted(state.skipped.items(), key=lambda item: -item[1])
        lines += [f"{count} skipped: {reason}" for reason, count in most_first]
    if state.settings.require_baseline and state.not_run:
        first = ", ".join(f"{test} ({why})" for test, why in islice(state.not_run.items(), _MOST_NOT_RUN))
        others = len(state.not_run) - _MOST_NOT_RUN
        more = f", and {others} more" if others > 0 else ""
        lines.append(f"{counted(len(state.not_run), 'test')} measured lately did not run: {first}{more}")
    return lines


def _newest_log(state: SessionState) -> Path | None:
    """The log that a worker or a program of this session wrote last, or the fork server's; None without any."""
    for kind in ("worker", "server"):
        with suppress(OSError):  # another session may remove old ones
            logs = {path: path.stat().st_mtime for path in (state.settings.dir / "logs").glob(f"{kind}-*.log")}
            if recent := [path for path, written in logs.items() if written >= state.began]:
                return max(recent, key=logs.__getitem__)
    return None


def _lost_gpus(state: SessionState) -> list[str]:
    """The GPUs that no longer answer."""
    machine = state.session.topology
    judged = f"Tests on the others are judged by the baselines of {machine.machine} (others: --tfperf-machine=NAME)"
    return [". ".join([*machine.lost, judged])] if machine.lost else []


def _failed_references(state: SessionState) -> Iterator[str]:
    for machine in state.session.machine_sessions.values():
        for (test, _), why in machine.reference_failures.items():
            yield f"{test}: its reference environment failed, so that only fresh runs could confirm a slowdown: {why}"


def _counts_line(results: Sequence[Measurement]) -> str:
    """Return a line with all machines (a host's CPUs and its GPUs are two), the count of each outcome, and the time."""
    machines = ", ".join(dict.fromkeys(result.machine for result in results))
    return f"{machines}: {counts(results)} in {duration(sum(result.seconds for result in results))}"


_PLAUSIBLE_GAIN = 1.0  # twice as fast; more is rare, as from XLA and mixed precision together


def _thresholds(measurements: Sequence[Measurement]) -> Iterator[str]:
    """The noise that limits detection without a reference environment, and thresholds that it has raised."""
    noises, wider = [], []
    for m in measurements:
        if m.verdict is None:
            continue
        if m.verdict.noise is not None and m.verdict.against is not Against.EARLIER_SESSIONS:
            noises.append(m.verdict.noise)
        if m.verdict.threshold and m.verdict.threshold_recorded:
            wider.append((m.verdict.threshold, m.verdict.threshold_recorded))
    if any(noise.between_sessions for noise in noises):
        runs = percent(statistics.median(noise.between_runs for noise in noises))
        sessions = percent(statistics.median(noise.between_sessions for noise in noises))
        source = "learnt from this machine's history, or assumed"
        yield f"noise (median over tests): runs differ by {runs}, the sessions of a test by {sessions} more ({source})"
    if wider:
        now, recorded = max(wider)
        yield (
            f"higher thresholds than when the baselines were recorded: {counted(len(wider), 'test')}, up to "
            f"{percent(now)} where it was {percent(recorded)}, because sessions or the machine's speed differ. Next: "
            "judge by a reference environment, which needs no history: tfperf reference create"
        )


def _next_steps(state: SessionState, measurements: Sequence[Measurement], width: int | None) -> Iterator[str]:
    changes = state.recorder.changes if state.settings.update_baselines else []
    if changes:
        new = sum(c.old is None for c in changes)
        folder = state.settings.shown_baselines
        yield f"recorded in {folder}: {new} new, {len(changes) - new} changed; check and commit them"
        given = {(m.machine, m.key): m.name for m in measurements}
        yield from recorded_table(changes, width, given)
        yield from recorded_under_load(changes)
    red = red_machines(state.verdicts)
    gains = improved = 0
    for m in measurements:
        verdict = m.verdict
        if verdict is None or verdict.against is Against.EARLIER_SESSIONS:
            continue
        improved += verdict.outcome is Outcome.IMPROVED
        if is_gain(m, red):
            gains += 1
            # With a digit missing in its row, every slowdown would pass.
            if verdict.change and verdict.change > _PLAUSIBLE_GAIN:
                times = f"{1 + verdict.change:.3g} times as fast as its baseline"
                yield f"{m.test}: {times}: if nothing explains that, correct the row"
    if gains:
        yield f"{gains} IMPROVED: record them with {recording_option()}, or a later slowdown to the old speed will pass"
    if improved > gains:
        yield f"{improved - gains} IMPROVED relative to the common drift only: do not record them"


def _under_load(measurements: Sequence[Measurement]) -> list[str]:
    """A line for each verdict against a row recorded under load; the first gives the consequence."""
    lines: list[str] = []
    for m in measurements:
        if m.verdict and m.verdict.baseline and (load := m.verdict.baseline.load):
            means = "" if lines else ". It may be too low, and let slowdowns pass: record again on a quiet machine"
            lines.append(f"{m.test}: its baseline was {load}{means}")
    return lines


def _unrecorded(state: SessionState, measurements: Sequence[Measurement]) -> Sequence[Line | str]:
    """The tests without a recorded baseline."""
    settings, found = state.settings, [m for m in measurements if m.is_unrecorded]
    if settings.update_baselines or not found:
        return []
    facts = unrecorded_tests(found, Tolerance.of(settings.tolerance))
    if settings.require_baseline:
        return [required(facts, baselines=settings.shown_baselines)]
    timed = state.session.run_seconds
    return unrecorded(
        facts,
        measurements,
        measured_before=sum(m.test in timed for m in measurements if m.outcome is Outcome.NO_BASELINE),
        baselines=settings.shown_baselines,
        command=settings.rerun.recording,
        seconds=RUNS * math.fsum(span[0] for span in spans_of_each_run(state).values() if span),
    )


def _of_recording(state: SessionState, measurements: Sequence[Measurement]) -> list[str]:
    recorder = state.recorder
    lines = [f"reference environment: {warning}" for warning in recorder.warnings]
    lines += starmap(_controlled, recorder.controlled.items())
    recorded, others = recorder.apart
    # Runs of few tests come in quick succession, and share whatever the machine did then.
    if others and 0 < recorded < MIN_TESTS:
        lines.append(
            f"{counted(recorded, 'workload')} recorded apart from the {others} others of this machine: what it did in "
            "these minutes, such as its temperature, is part of the new figures alone. To record all alike: pytest "
            f"{recording_option()}"
        )
    if unfinished := len({m.test for m in measurements if runs_missing(m)}):
        tests = counted(unfinished, "test")
        lines.append(f"{tests} not recorded: the session ended before all their runs. Their rows are as before")
    return lines


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


def other_matmul_rate(change_of_rate: float | None) -> list[str]:
    """Return the line on a matmul rate that differs from the rows'; nothing where it does not."""
    if change_of_rate is None:
        return []
    way = "lower" if change_of_rate < 0 else "higher"
    return [
        f"the matmul rate is {percent(change_of_rate)} {way} than when the rows were recorded, in the median of the "
        "tests: another kind of machine has this name, or its clock changed. Next: `tfperf doctor`; tell kinds of "
        "machines apart with --tfperf-machine=NAME"
    ]


def _notes(measurements: Sequence[Measurement]) -> list[str]:
    """What single tests should know: a missing profile, lines that were not read, an end by time, a straggler."""
    profiles, lines_not_read, stragglers, windows = [], [], [], dict[str, int]()
    for m in measurements:
        if m.recording is not None and m.profile is not None and not m.profile.ops:
            # Later regressions can't say which operations grew.
            why = m.profile.fault or "the trace has no TensorFlow operations"
            profiles.append(f"{m.test}: its baseline has no profile: {why}")
        for run in m.runs:
            if run.ended_by_time:  # fewer windows are known less precisely
                windows[m.test] = len(run.windows)
        # Of a user's program: silence could hide slow readings.
        lines_not_read += [f"{m.test}: {run.not_read}" for run in m.runs if run.not_read][-1:]
        # Ranks hold up the others also where the throughput is its baseline's, or becomes a baseline.
        if m.breakdown is not None and (text := straggler_text(m.breakdown)):
            stragglers.append(f"{m.test}: straggler: {text}")
    ended = []
    if windows:
        least = min(windows, key=windows.__getitem__)
        ended.append(
            f"{counted(len(windows), 'test')} ended by time, before all steps: {least} after "
            f"{counted(windows[least], 'window')}. Where its interval is too wide, give the test more steps (steps=), "
            "or all tests more time: -o tfperf_max_time=SECONDS"
        )
    return [*profiles, *lines_not_read, *ended, *stragglers]
