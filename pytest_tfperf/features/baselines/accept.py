"""Rows from what sessions have measured: of a change that a session confirmed, and of gains that stay."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from shlex import quote
from typing import Final

from pytest_tfperf.core.acknowledgement import Acknowledgement, Standing
from pytest_tfperf.core.baseline import RUNS, Baseline, BaselineUpdate, Key, require_plausible
from pytest_tfperf.core.figure import RATE, Better, shown_name
from pytest_tfperf.core.measurement import OF_A_RUN, Measurement, environment_changes, recorded_with
from pytest_tfperf.core.rerun_command import recording_option
from pytest_tfperf.core.throughput import Throughput
from pytest_tfperf.core.topology import gpu_model
from pytest_tfperf.core.verdict import Against, Consequence, Outcome, Reason, Tolerance, Verdict
from pytest_tfperf.errors import BaselineError, BaselineRefused, TfperfError
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.new_baselines import baseline_of, figure_baseline, is_beyond_noise, pooled
from pytest_tfperf.judging.noise import baseline_variance, noise_of
from pytest_tfperf.judging.session_effects import session_variance
from pytest_tfperf.judging.target import Target
from pytest_tfperf.judging.validity import load_of
from pytest_tfperf.lines import one_line
from pytest_tfperf.reports.invalid import load_note
from pytest_tfperf.reports.numbers import change, counted, percent
from pytest_tfperf.reports.verdict import value_of_row
from pytest_tfperf.revisions.git import DIRTY
from pytest_tfperf.revisions.lock import contradiction, forget_locks, read_lock, write_lock
from pytest_tfperf.stores.baseline_file import BaselineStore
from pytest_tfperf.stores.history import History

# Runs of several sessions say more than as many of one recording, which share what the machine does that day.
GAIN_SESSIONS: Final = 5
"""The latest sessions of a row that show a gain, and that its new row rests on, lucky or not."""

_MOST_READ: Final = 20  # measurements of a row: several tests may share it

CONFIRMED: Final = (Outcome.REGRESSED, Outcome.IMPROVED)


@dataclass(frozen=True, slots=True)
class Change:
    """A figure that a test measured, and the measurements that can make its row anew, latest first."""

    verdict: Verdict
    measurements: Sequence[Measurement]
    is_gain: bool = False  # whether it is one that stays; else a change that the latest of the measurements confirmed

    @property
    def key(self) -> Key:
        """The row's key."""
        name = self.verdict.figure.name
        return self.measurements[0].key._replace(figure="" if name == RATE else name)

    @property
    def machine(self) -> str:
        """The row's machine."""
        return self.measurements[0].machine

    @property
    def shown(self) -> str:
        """The test and the figure, for messages."""
        return one_line(f"{self.measurements[0].test}: {shown_name(self.verdict.figure.name)}")


@dataclass(frozen=True, slots=True)
class Accepted:
    """A row that was made anew, from the runs of a change that count."""

    change: Change
    update: BaselineUpdate
    # the slowdown that a session detects against this row with 95 % power, a positive fraction; and against one of
    # twice as many runs as a recording takes. None for other figures, and where any drop is accepted.
    detectable: float | None = None
    detectable_of_ten: float | None = None

    def __str__(self) -> str:
        """A line of Markdown for a pull request."""
        old, new, m = self.update.old, self.update.new, self.change.measurements[0]
        assert old is not None, "a row is accepted in place of another"
        unit = new.unit if new.key.figure else f"{new.unit}/s"
        interval = "".join(f", 95 % interval {' to '.join(ends)}" for ends in [_interval(new)] if ends)
        power = ""
        if self.detectable is not None and self.detectable_of_ten is not None:
            power = f"; detects slowdowns from {percent(self.detectable)} (95 % power"
            power += f"; a row of {2 * RUNS} runs from {percent(self.detectable_of_ten)})"
        return one_line(
            f"- `{m.test}` on {m.machine}: {shown_name(self.change.verdict.figure.name)} {value_of_row(old)} -> "
            f"{value_of_row(new)} {unit} ({change(new.value / old.value - 1) if old.value else 'from 0'}{interval}), "
            f"{counted(new.runs, 'run')} of {new.source}, commit {m.commit or 'unknown'}{power}"
        )


def _interval(row: Baseline) -> list[str]:
    """Return the ends of the 95 % confidence interval of a row's value; none where its spread is not known."""
    from scipy.special import stdtrit

    if row.between_runs is None or row.runs < 2:
        return []
    half = float(stdtrit(row.runs - 1, 0.975)) * row.between_runs * math.sqrt(baseline_variance(row.runs))
    return [value_of_row(replace(row, value=row.value * (1 + sign * half))) for sign in (-1, 1)]


# What can be accepted


def confirmed(measurements: Iterable[Measurement], *, only_failed: bool = False) -> Iterator[Change]:
    """Yield the changes of measurements without another side: by default all that are REGRESSED or IMPROVED.

    A test without any gives its throughput, which `record` then refuses with the reason. `only_failed` takes what
    failed its test, and nothing else.
    """
    for m in measurements:
        if only_failed:
            losses = [v for v in m.verdicts if v.outcome is Outcome.REGRESSED and v.if_slower is Consequence.FAILS]
            verdicts = [verdict for verdict in losses if verdict.standing(m.day) is not Standing.HOLDS]
        else:
            verdicts = [v for v in m.verdicts if v.outcome in CONFIRMED] or [m.verdicts[0]]
        yield from (Change(verdict, (m,)) for verdict in verdicts)


def with_others(change: Change, others: Iterable[Measurement]) -> Change:
    """Return a change with the free runs of its session and, while they are too few, of further ones, latest first.

    Of further sessions those count that measured the same code in the same environment, and found the same.
    """
    first, taken = change.measurements[0], [change.measurements[0].free]
    for m in others:
        if sum(len(each.runs) for each in taken) >= RUNS:
            break
        if is_alike(first, m):
            taken.append(m.free)
    return replace(change, measurements=tuple(taken))


def is_alike(m: Measurement, other: Measurement) -> bool:
    """Whether two measurements are of the same test, devices, code and environment, and found the same.

    Of a changed work tree nobody knows which code it was. A session that found something else may be of a machine that
    has changed in between.
    """

    def found(m: Measurement) -> list[tuple[str, Outcome | None, float | None]]:
        return [(verdict.figure.name, verdict.outcome, verdict.compared_with) for verdict in m.verdicts]

    changes = environment_changes(m.environment, other.environment)
    return (
        bool(m.commit)
        and not m.commit.endswith(DIRTY)
        and other.other is None
        and (m.test, m.key, m.machine, m.gpu, m.commit)
        == (other.test, other.key, other.machine, other.gpu, other.commit)
        and m.throughput.unit == other.throughput.unit
        and all(change.name in OF_A_RUN for change in changes)
        and found(m) == found(other)
    )


def of_history(history: History, m: Measurement) -> list[Measurement]:
    """Return the measurements of other sessions of a test's code, latest first."""
    values = history.values(test=m.test, machine=m.machine, figure="")
    alike = [value.number for value in values if m.commit == value.commit != ""]
    latest = history.measurements_of(alike[-_MOST_READ:]) if alike else []
    return [other for other in latest if other.session != m.session]


def gains(rows: Iterable[Baseline], history: History) -> Iterator[Change]:
    """Yield the rows that became better for good: by more than noise explains, over all of their latest sessions.

    All of these count, also those that were no better than the row, so that no lucky night is picked. One that was
    slower, or in doubt, is no unchanged state of the code.
    """
    for row, before in history.earlier.judged_against(rows, most=_MOST_READ).items():
        sessions = [list(of_session) for _, of_session in groupby(before, key=itemgetter(1))][:GAIN_SESSIONS]
        latest = [judged for of_session in sessions for judged in of_session]
        if len(sessions) == GAIN_SESSIONS and {outcome for *_, outcome in latest} <= {Outcome.PASS, Outcome.IMPROVED}:
            measurements = history.measurements_of([id for id, *_ in latest])
            if len(measurements) == len(latest) and (change := gain_of(row, measurements)) is not None:
                yield change


def gain_of(row: Baseline, measurements: Sequence[Measurement]) -> Change | None:
    """Return the gain of a row that its sessions show; None where noise explains it."""
    name = row.key.figure or RATE
    verdict = next((v for v in measurements[0].verdicts if v.figure.name == name), None)
    free = [m.free for m in measurements]
    if verdict is None or verdict.figure.better is Better.SAME or not all(m.runs for m in free):
        return None
    change = Change(verdict, free, is_gain=True)
    if not row.key.figure:
        now = [pooled([m], is_gain=True).throughput.runs for m in free]
        levels = [statistics.fmean(value.log_rate for value in values) for values in now]
        accepted = Tolerance().within(row).upper
        limit = math.inf if accepted is None else math.log1p(accepted)
        return change if is_beyond_noise(levels, math.log(row.value), row, limit) else None
    values = [[run.figures.get(name) for run in pooled([m], is_gain=True).runs] for m in free]
    if any(value is None for of_session in values for value in of_session):
        return None
    sign = verdict.figure.signs[0]
    levels = [sign * statistics.fmean(value for value in of_session if value is not None) for of_session in values]
    return change if is_beyond_noise(levels, sign * row.value, row, verdict.figure.accepted(row.value)) else None


# How it is recorded


def record(
    store: BaselineStore,
    changes: Sequence[Change],
    *,
    root: Path,
    acknowledged: Collection[Acknowledgement] = (),
    writes: bool = True,
) -> tuple[list[Accepted], list[TfperfError]]:
    """Record the rows of changes of one machine anew; return them, and the errors of rows that stay as they are.

    Args:
        store: without published baselines, which stay as their documents have them.
        root: the project; new locks leave its own packages out.
        acknowledged: losses that are known, which are not accepted.

    Raises:
        TfperfError: the file can't be read whole or written, or a session holds its lock.
    """
    machine = changes[0].machine
    with store.lock() if writes else nullcontext():  # a session that records meanwhile would have newer rows
        before = {**store.load(machine), **store.figures(machine)}
        rows = {key: row for key, row in before.items() if row.is_measured}
        accepted: dict[Key, Accepted] = {}
        refused: list[TfperfError] = []
        for change in changes:
            try:
                if refusal := _refusal(change, rows.get(change.key), acknowledged):
                    raise BaselineRefused(f"{change.shown} {refusal[0]}", next_step=refusal[1])
                accepted[change.key] = accepted_row(change, rows)
            except (BaselineError, BaselineRefused) as error:
                refused.append(error)
        if writes and accepted:
            new = {key: each.update.new for key, each in accepted.items()}
            new = {key: replace(row, lock=_lock(rows[key], row, store.folder, root)) for key, row in new.items()}
            store.update(machine, new)
            forget_locks(store.folder, machine, {row.lock for row in (before | new).values()})
            accepted = {k: replace(each, update=BaselineUpdate(rows[k], new[k])) for k, each in accepted.items()}
    return list(accepted.values()), refused


def _refusal(change: Change, old: Baseline | None, acknowledged: Collection[Acknowledgement]) -> tuple[str, str] | None:
    """Return why a change is none of this row, or is not known well enough, and what to do; None for no reason."""
    m, verdict = change.measurements[0], change.verdict
    name, session, again = change.key.figure or RATE, f"session {m.session}", f"pytest {quote(m.test)}"
    record, take = f"Record it: {again} {recording_option()}", f"{again} --tfperf-accept {quote(m.test)}"
    if "injected_slowdown" in m.environment:
        return f"was slowed on purpose in {session} (--tfperf-inject-slowdown)", f"Run it without: {again}"
    if verdict.reason is Reason.BEYOND_LIMIT:
        return "is beyond its limit, whatever its baseline is", "Change the limit in the test"
    if verdict.against not in (Against.BASELINE, None):
        return f"was judged in {session} by {verdict.against} figures only, which are no row of this machine", record
    if not change.is_gain and verdict.outcome not in CONFIRMED:
        return f"is {verdict.outcome or 'not judged'} in {session}: no change is confirmed", f"Measure it: {take}"
    if any(loss.is_of(m.machine, m.test, m.key) and loss.figure == name for loss in acknowledged):
        return "has an acknowledged loss, which is to be fixed", f"If it stays: tfperf ack --remove {quote(m.test)}"
    if old is None:
        return f"has no measured row in {m.machine}.csv, of the machine that measured it in {session}", record
    if verdict.baseline is None or (verdict.baseline.value, verdict.baseline.date) != (old.value, old.date):
        was = "without a baseline" if verdict.baseline is None else f"by {value_of_row(verdict.baseline)}"
        return f"was judged {was} in {session}, and its row is {value_of_row(old)} ({old.date or 'no date'})", take
    if gpu_model(old.gpu) != gpu_model(m.gpu):
        return f"was measured on {m.gpu or 'CPUs'}, and its row on {old.gpu or 'CPUs'}", record
    unit = m.throughput.unit if name == RATE else verdict.figure.unit or ""
    if unit != old.unit:
        return f"is in {unit}, and its row in {old.unit}", record
    places = {run.figure_places.get(name, "") for each in change.measurements for run in each.runs} - {""}
    if old.place and places - {old.place}:
        return f"was read {', '.join(sorted(places))}, and its row {old.place}", record
    runs = sum(len(each.runs) for each in change.measurements)
    if runs < RUNS:
        why = "; runs of pairs, disturbed runs and the one that raised the suspicion do not count"
        have = f"has {counted(runs, 'run')} of {session}, and {RUNS - runs} of {RUNS} are lacking{why}"
        return have, f"Take them on the machine {m.machine}: {take}"
    return None


def accepted_row(change: Change, rows: Mapping[Key, Baseline]) -> Accepted:
    """Return the new row of a change, without its lock, with the bounds that a user gave the old row."""
    old = rows[change.key]
    figure = change.verdict.figure
    is_gain = change.is_gain or change.verdict.outcome is Outcome.IMPROVED
    recording = pooled(change.measurements, is_gain=is_gain)
    row = figure_baseline(recording, figure) if old.key.figure else baseline_of(recording)
    if is_gain and figure.signs[0] * (row.value - old.value) <= 0:
        raise BaselineRefused(
            f"{change.shown} improved relative to the common drift only, and is no better than its row"
        )
    times = sorted(m.time[:10] for m in change.measurements)
    sessions = list(dict.fromkeys(m.session for m in change.measurements))
    several = f"from {len(sessions)} sessions, {times[0]} to {times[-1]}" if len(sessions) > 1 else ""
    drift = math.expm1(-change.measurements[0].verdicts[0].common_drift) if not is_gain else 0.0
    corrected = f"corrected by {drift * 100:+.1f} % for the drift common to all tests" if abs(drift) >= 0.001 else ""
    load = load_note(load_of(recording.runs), len(recording.runs))
    note = "; ".join(filter(None, (load, several, corrected, row.note)))
    source = f"session{'' if len(sessions) == 1 else 's'} {', '.join(sessions)}"
    row = replace(row, lower=old.lower, upper=old.upper, note=note, source=source)
    require_plausible(row)
    if old.key.figure:
        return Accepted(change, BaselineUpdate(old, row))
    of_runs, of_ten = (_detectable(row_of, rows, recording.throughput) for row_of in (row, replace(row, runs=2 * RUNS)))
    return Accepted(change, BaselineUpdate(old, row), of_runs, of_ten)


def _detectable(row: Baseline, rows: Mapping[Key, Baseline], now: Throughput) -> float | None:
    """Return the slowdown that a session without a history detects against a row with 95 % power."""
    target = Target(row, noise=noise_of(row, {**rows, row.key: row}.values()))
    tolerance = target.tolerance(None, Tolerance())
    variance = session_variance(tests=len(rows))
    return judge(
        Evidence(throughput=now, target=target, tolerance=tolerance, variance=variance)
    ).min_detectable_slowdown


def _lock(old: Baseline, row: Baseline, folder: Path, root: Path) -> str:
    """Return the lock of a new row's packages: that of the old row, or one of those installed here; "" for others."""
    changes = environment_changes(recorded_with(old), recorded_with(row))
    if old.lock and all(change.is_outside or change.name == "commit" for change in changes):
        return old.lock
    name = write_lock(folder, row.machine, root=root)
    return "" if contradiction(replace(row, lock=name), read_lock(folder / name)) else name
