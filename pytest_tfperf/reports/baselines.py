"""The words of recorded baselines, and of tests that have none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Final

from pytest_tfperf.core.baseline import Baseline, BaselineUpdate, Key
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.rerun_command import recording_option
from pytest_tfperf.core.session_verdicts import UnrecordedTests
from pytest_tfperf.lines import Line
from pytest_tfperf.lines import command as command_line
from pytest_tfperf.reports.invalid import ADVICE
from pytest_tfperf.reports.numbers import change, counted, duration, percent
from pytest_tfperf.reports.table import Columns, shown_names, table
from pytest_tfperf.reports.verdict import value_of_row

_RECORDED = Columns(
    right={"old", "new", "change", "between runs"}, optional=("figure", "between runs", "file"), ids=("workload",)
)


def recorded_table(
    changes: Sequence[BaselineUpdate], width: int | None, given: Mapping[tuple[str, Key], str] = MappingProxyType({})
) -> Iterator[str]:
    """Yield the indented table of recorded rows; `given` are the workloads' names by machine and key of throughput."""
    keys = [(c.new.machine, c.new.key._replace(figure="")) for c in changes]
    named = [(key.workload, given.get((machine, key), "")) for machine, key in keys]
    names = shown_names(named)
    rows = [_recorded(change, names[name]) for change, name in zip(changes, named, strict=True)]
    yield from (f"  {line}" for line in table(rows, _RECORDED, None if width is None else width - 2))


def recorded_under_load(changes: Sequence[BaselineUpdate]) -> Iterator[str]:
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


def _recorded(changed: BaselineUpdate, name: str) -> dict[str, str | None]:
    old, new = changed.old, changed.new
    return {
        "file": f"{new.machine}.csv",
        "workload": name,
        "topology": new.key.topology,
        "figure": new.key.figure,
        "old": value_of_row(old) if old else "new",
        "new": value_of_row(new),
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
        measurements: all of the session's.
        baselines: the folder of the baselines, as it is shown.
        command: records them, in about these `seconds`.
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
