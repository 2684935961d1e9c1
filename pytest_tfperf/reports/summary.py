"""The lines that a session prints before its first test and after its last."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, islice
from types import MappingProxyType
from typing import Final

from pytest_tfperf.core.baseline import Baseline, BaselineUpdate, Key
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.rerun_command import recording_option
from pytest_tfperf.core.session_verdicts import UnrecordedTests
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Against, Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import Line
from pytest_tfperf.lines import command as command_line
from pytest_tfperf.reports.invalid import ADVICE
from pytest_tfperf.reports.measurement_table import (
    Shown,
    counts,
    figure_table,
    interleaved_table,
    is_gain,
    measurement_table,
)
from pytest_tfperf.reports.numbers import change, counted, duration, percent, rate, time_span, written_in
from pytest_tfperf.reports.table import Columns, shown_names, table

_RECORDED = Columns(
    right={"old", "new", "change", "between runs"}, optional=("figure", "between runs", "file"), ids=("workload",)
)

_MOST_NOT_RUN: Final = 3


def before(
    machine: str,
    tests: int,
    seconds: tuple[float, float],
    never_timed: int,
    *,
    most_seconds: float = 0.0,
    recording: int = 0,
    controls: int = 0,
    baselines: str = "",
    smoke: bool = False,
    inject_slowdown: float = 0.0,
    slowed: Sequence[str] = (),
    against: Sequence[str] = (),
) -> list[str]:
    """Return lines with the machine, the number of tests, the expected time, and the session's special options.

    Args:
        machine: the machine's key.
        tests: the number of throughput tests.
        seconds: the least and the most expected time.
        never_timed: the number of tests whose time the history does not know.
        most_seconds: the expected time where a test is in doubt, or where runs of a recording differ.
        recording: the number of fresh runs of each test under --update-baselines; 0 without it.
        controls: the number of other workloads that run beside these tests.
        baselines, smoke, inject_slowdown: the options of these names.
        slowed: the selected tests that lose it; empty for all.
        against: further lines, about the other side.
    """
    unknown = f" ({never_timed} never timed here)" if never_timed else ""
    time = f"{time_span(*seconds)}{unknown}{_at_most(seconds, most_seconds, is_recording=bool(recording))}"
    lines = [f"{machine}, {counted(tests, 'throughput test')}, {time}"]
    if recording:
        lines.append(f"recording baselines, {recording} fresh runs of each test, into {baselines}")
    if controls:
        lines.append(f"few tests, so up to {controls} other recorded workloads run before each round and at the end")
    if smoke:
        lines.append("smoke run: one window of each test, no verdicts")
    if inject_slowdown:
        who = f"workers of {counted(len(slowed), 'test')}" if slowed else "workers"
        lines.append(f"{who} lose {percent(inject_slowdown)} of their throughput on purpose")
    lines += against
    return [f"tfperf: {line}" for line in lines]


def _at_most(seconds: tuple[float, float], most: float, *, is_recording: bool) -> str:
    """Return ", up to 3 min if a test is in doubt", minutes rounded up; "" where that is the expected time."""
    shown = time_span(0.0, most)
    if round(most) <= round(seconds[1]) or time_span(0.0, seconds[1]) == shown:
        return ""
    return f", {shown} if {'runs differ' if is_recording else 'a test is in doubt'}"


def refused(faults: Mapping[str, Sequence[TfperfError]], tests: int, *, in_brief: bool = False) -> list[str]:
    """Return lines about tests with invalid parameters: each fault once, with the first test that has it.

    `faults` are the faults of each test; `tests` is the number of throughput tests. `in_brief` shows only a fault's
    first sentence.
    """
    if not faults:
        return []
    grouped: dict[str, list[str]] = {}
    for test, of_test in faults.items():
        for fault in of_test:
            grouped.setdefault(fault.brief if in_brief else str(fault), []).append(test)
    all_tests = counted(tests, "throughput test")
    lines = [f"tfperf: {len(faults)} of {all_tests} have invalid parameters; each of them is an error:"]
    for text, (first, *others) in grouped.items():
        lines.append(f"  {first}{f' and {len(others)} more' if others else ''}: {text}")
    return lines


def lost_gpus(machine: Topology) -> list[str]:
    """Return the line on GPUs that no longer answer; nothing without any."""
    judged = f"Tests on the others are judged by the baselines of {machine.machine} (others: --tfperf-machine=NAME)"
    return [". ".join([*machine.lost, judged])] if machine.lost else []


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


def skips(reasons: Mapping[str, int]) -> list[str]:
    """Return a line for each reason why tests were skipped, the most frequent first."""
    return [f"{count} skipped: {reason}" for reason, count in sorted(reasons.items(), key=lambda item: -item[1])]


def not_run(reasons: Mapping[str, str]) -> list[str]:
    """Return the line on tests that were measured lately and did not run now, by their reasons; nothing without any."""
    first = ", ".join(f"{test} ({why})" for test, why in islice(reasons.items(), _MOST_NOT_RUN))
    more = f", and {len(reasons) - _MOST_NOT_RUN} more" if len(reasons) > _MOST_NOT_RUN else ""
    lately = f"{counted(len(reasons), 'test')} measured lately did not run"
    return [f"{lately}: {first}{more}"] if reasons else []


def not_under_xdist(tests: int) -> str:
    """Return the line that nothing was measured: pytest only counts the tests as skipped or as errors."""
    return (
        f"NOTHING WAS MEASURED: {counted(tests, 'throughput test')} ran under pytest-xdist, whose workers would share "
        "the machine. Run without -n, or with -n 0"
    )


def summary(
    measurements: Sequence[Measurement],
    *,
    baselines: str,
    changes: Sequence[BaselineUpdate] = (),
    machine: Sequence[str] = (),
    red: Collection[str] = (),
    not_measured: int = 0,
    measured_nothing: bool = False,
    history_error: str = "",
    width: int | None = None,
    unrecorded: Sequence[Shown] = (),
) -> list[Shown]:
    """Return the summary: table, counts, machine, recorded rows, next steps and failures.

    Args:
        measurements: all measurements of the session.
        baselines: the folder of the baselines, as shown to the user.
        changes: rows that were recorded.
        machine: the texts of the verdicts on the whole session.
        red: the machines that are REGRESSED as a whole.
        not_measured: tests that ended in an error because they could not be measured.
        measured_nothing: whether --tfperf-require-baseline was given and no test was measured.
        history_error: why the history lacks a part of this session; "" if it is complete.
        width: the terminal's; None for no limit.
        unrecorded: the paragraph about tests without a recorded baseline.
    """
    lines: list[Shown] = []
    if measured_nothing:
        lines.append(
            "NOTHING WAS MEASURED: --tfperf-require-baseline was given, and no selected test was measured. "
            "Each test's report says why; `tfperf topology` shows the devices"
        )
    elif measurements:
        lines += [*measurement_table(measurements, width), *figure_table(measurements, width)]
        lines += ["", _counts_line(measurements), *_noise(measurements), *_widened(measurements)]
        lines += filter(None, machine)
        if undecided := [m for m in measurements if m.verdict and not m.verdict.is_decided]:
            why = "the session ended, or the test failed, before their last runs"
            lines.append(f"{len(undecided)} undecided: {why}. Run them again")
        lines += [*_next_steps(measurements, changes, baselines, red, width), *_under_load(measurements), *unrecorded]
    if not_measured:
        lines.append(f"{not_measured} not measured: the error of each test says why, and what to do")
    return lines + ([f"not in the history: {history_error}"] if history_error else [])


def interleaved_summary(measurements: Sequence[Measurement], width: int | None = None) -> list[Shown]:
    """Return the table of measurements beside another side, and their counts; nothing without any."""
    if not measurements:
        return []
    figures = figure_table(measurements, width)
    return [*interleaved_table(measurements, width), *figures, "", _counts_line(measurements)]


def _counts_line(results: Sequence[Measurement]) -> str:
    """Return a line with all machines (a host's CPUs and its GPUs are two), the count of each outcome, and the time."""
    machines = ", ".join(dict.fromkeys(result.machine for result in results))
    return f"{machines}: {counts(results)} in {duration(sum(result.seconds for result in results))}"


def _not_provisional(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Return the judged measurements without a provisional baseline."""
    return [m for m in measurements if m.verdict and m.verdict.against is not Against.EARLIER_SESSIONS]


def _noise(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yield a line about the noise that limits detection without a reference environment."""
    known = [m.verdict.noise for m in _not_provisional(measurements) if m.verdict and m.verdict.noise]
    if not any(noise.between_sessions for noise in known):
        return
    runs = percent(statistics.median(noise.between_runs for noise in known))
    sessions = percent(statistics.median(noise.between_sessions for noise in known))
    source = "learnt from this machine's history, or assumed"
    yield f"noise (median over tests): runs differ by {runs}, the sessions of a test by {sessions} more ({source})"


def _widened(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yield a line about the tests whose thresholds are higher than when their baselines were recorded."""
    verdicts = [m.verdict for m in measurements if m.verdict]
    wider = [(v.threshold, v.threshold_recorded) for v in verdicts if v.threshold and v.threshold_recorded]
    if not wider:
        return
    now, recorded = max(wider)
    yield (
        f"higher thresholds than when the baselines were recorded: {counted(len(wider), 'test')}, up to {percent(now)} "
        f"where it was {percent(recorded)}, because sessions or the machine's speed differ. Next: judge by a reference "
        "environment, which needs no history: tfperf reference create"
    )


_PLAUSIBLE_GAIN = 1.0  # twice as fast; more is rare, as from XLA and mixed precision together


def _next_steps(
    measurements: Sequence[Measurement],
    changes: Sequence[BaselineUpdate],
    baselines: str,
    red: Collection[str],
    width: int | None,
) -> Iterator[str]:
    if changes:
        new = sum(c.old is None for c in changes)
        yield f"recorded in {baselines}: {new} new, {len(changes) - new} changed; check and commit them"
        given = {(m.machine, m.key): m.name for m in measurements}
        yield from recorded_table(changes, width, given)
        yield from _recorded_under_load(changes)
    recorded = _not_provisional(measurements)
    improved = sum(m.verdict.outcome is Outcome.IMPROVED for m in recorded if m.verdict)
    gained = [m for m in recorded if is_gain(m, red)]
    gains = len(gained)
    for m in gained:  # with a digit missing in its row, every slowdown would pass
        if m.verdict and m.verdict.change and m.verdict.change > _PLAUSIBLE_GAIN:
            times = f"{1 + m.verdict.change:.3g} times as fast as its baseline"
            yield f"{m.test}: {times}: if nothing explains that, correct the row"
    if gains:
        yield f"{gains} IMPROVED: record them with {recording_option()}, or a later slowdown to the old speed will pass"
    if improved > gains:
        yield f"{improved - gains} IMPROVED relative to the common drift only: do not record them"


def recorded_table(
    changes: Sequence[BaselineUpdate], width: int | None, given: Mapping[tuple[str, Key], str] = MappingProxyType({})
) -> Iterator[str]:
    """Yield the indented table of recorded rows; `given` are the workloads' names by machine and key of throughput."""
    keys = [(c.new.machine, c.new.key._replace(figure="")) for c in changes]
    named = [(key.workload, given.get((machine, key), "")) for machine, key in keys]
    names = shown_names(named)
    rows = [_recorded(change, names[name]) for change, name in zip(changes, named, strict=True)]
    yield from (f"  {line}" for line in table(rows, _RECORDED, None if width is None else width - 2))


def _under_load(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yield a line for each verdict against a row recorded under load; the first gives the consequence."""
    rows = [(m, m.verdict.baseline) for m in measurements if m.verdict and m.verdict.baseline]
    for number, (m, row) in enumerate((m, row) for m, row in rows if row.load):
        means = "" if number else ". It may be too low, and let slowdowns pass: record again on a quiet machine"
        yield f"{m.test}: its baseline was {row.load}{means}"


def _recorded_under_load(changes: Sequence[BaselineUpdate]) -> Iterator[str]:
    """Yield a line for each load that disturbed new rows, with their names."""
    loads: dict[str, list[str]] = {}
    for row in (changed.new for changed in changes):
        if row.load and not row.key.figure:
            loads.setdefault(row.load, []).append(f"{row.key.workload} on {row.key.topology}")
    for load, names in loads.items():
        shown = [*names[:_MOST_ROWS], *([f"{len(names) - _MOST_ROWS} more"] if len(names) > _MOST_ROWS else [])]
        whose, they = ("row of", "It") if len(names) == 1 else ("rows of", "They")
        yield f"{whose} {', '.join(shown)}: {load}. {they} may be too low: record again on a quiet machine"


_MOST_ROWS: Final = 5


def _value(row: Baseline) -> str:
    return written_in(row.unit, row.value) if row.key.figure else rate(row.value)


def _recorded(changed: BaselineUpdate, name: str) -> dict[str, str | None]:
    old, new = changed.old, changed.new
    return {
        "file": f"{new.machine}.csv",
        "workload": name,
        "topology": new.key.topology,
        "figure": new.key.figure,
        "old": _value(old) if old else "new",
        "new": _value(new),
        "change": change(new.value / old.value - 1) if old and old.value else None,
        "between runs": None if new.between_runs is None else percent(new.between_runs),
    }


_MOST_RATIOS = 3

_Published = tuple[Measurement, Baseline]


def unrecorded(
    group: UnrecordedTests,
    measurements: Sequence[Measurement],
    *,
    baselines: str,
    command: str,
    seconds: float,
    measured_before: int = 0,
) -> list[Line]:
    """Return the paragraph about tests without a recorded baseline.

    It has the number judged, the noise, the documents' figures, the detectable slowdown and the next step.

    Args:
        group: the tests without a recorded baseline.
        measurements: all measurements of the session.
        baselines: the folder of the baselines, as it is shown.
        command: the command that records them.
        seconds: the time that this command will take.
        measured_before: how many of the tests that were not judged an earlier session measured.
    """
    return [
        Line(_fact(group, baselines, measured_before)),
        *_noise_lines(group),
        *_documents(measurements),
        *_detectable(group),
        *_disturbed(group),
        command_line("record", command, f"about {duration(seconds)}; then commit {baselines}"),
    ]


def required(group: UnrecordedTests, *, baselines: str) -> str:
    """Return the line about these tests for the nightly gate, where each of them failed with a message of its own."""
    return f"{group.tests} without a baseline: record them with {recording_option()}, then commit {baselines}"


def _fact(group: UnrecordedTests, baselines: str, measured_before: int) -> str:
    rest = group.tests - group.judged
    why = "no earlier session here gives a provisional baseline"
    if measured_before:
        was = "1 was" if measured_before == 1 else f"{measured_before} were"
        why += f" ({was} measured before: `tfperf explain TEST` says why that does not count)"
    parts = [f"{rest} measured and not judged, because {why}"] if rest else []
    if group.judged:
        parts.append(f"{group.judged} judged against earlier sessions here (provisional), which warn and never fail")
    return f"without a row in {baselines}: {'; '.join(parts)}"


def _noise_lines(group: UnrecordedTests) -> Iterator[Line]:
    within = "unknown" if group.within_runs is None else percent(group.within_runs)
    between = group.between_runs
    known = "shown after a later session" if between is None else f"{percent(between)} (standard deviation)"
    yield Line(f"within a run {within} (standard error); between runs {known}", "noise")


def _detectable(group: UnrecordedTests) -> Iterator[Line]:
    if group.detectable is None:
        return
    text = f"the next session warns of slowdowns from {percent(group.detectable)}"
    if group.too_noisy_to_record:
        text += "; most runs differ too much for a baseline: free the machine of other work before you record"
    elif group.detectable_recorded is not None:
        text += f"; with recorded baselines tests fail from {percent(group.detectable_recorded)}"
    yield Line(f"{text} (95 % power, median over tests)", "detectable")


def _disturbed(group: UnrecordedTests) -> Iterator[Line]:
    if not group.disturbances:
        return
    kinds = Counter(group.disturbances).most_common()
    text = f"{len(group.disturbances)} of {group.tests} ({', '.join(kind for kind, _ in kinds)}), which are no "
    yield Line(f"{text}provisional baseline for the next session: {ADVICE[kinds[0][0]]}", "disturbed")


def _documents(measurements: Sequence[Measurement]) -> Iterator[Line]:
    """Yield this machine's throughputs relative to a document's machine, and a few ratios beside the document's."""
    published = [(m, m.document) for m in measurements if m.document is not None]
    if not published:
        return
    machine = Counter(row.machine for _, row in published).most_common(1)[0][0]
    alike = [(m, row) for m, row in published if row.machine == machine]
    times = sorted(m.throughput.examples_per_sec / row.value for m, row in alike)
    spread = f"{times[0]:.2f}" + (f" to {times[-1]:.2f}" if len(times) > 1 else "")
    text = f"{spread} times the {counted(len(alike), 'published figure')} of {machine} for these workloads"
    yield Line(text, "documents")
    for base, measured in _comparable(alike)[:_MOST_RATIOS]:
        yield Line(_ratio(base, measured), "")


def _comparable(published: Sequence[_Published]) -> list[tuple[_Published, _Published]]:
    """Return pairs that differ in either topology or workload, with the larger published figure second."""
    in_order = sorted(published, key=lambda measured: measured[1].value)
    pairs = combinations(in_order, 2)
    return [(a, b) for a, b in pairs if (a[0].workload == b[0].workload) != (a[0].topology == b[0].topology)]


def _ratio(base: _Published, measured: _Published) -> str:
    (over, over_row), (m, row) = base, measured
    here = m.throughput.examples_per_sec / over.throughput.examples_per_sec
    names = shown_names((side.workload.id, side.name) for side in (over, m))
    what = f"{names[m.workload.id, m.name]} on {m.topology} over "
    what += over.topology if m.workload == over.workload else names[over.workload.id, over.name]
    return f"{what}: {here:.2f} here, {row.value / over_row.value:.2f} there"
