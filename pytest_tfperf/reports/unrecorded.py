"""What a session says of its tests without a recorded baseline: what they tell all the same, and how to record them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.session_verdicts import UnrecordedTests
from pytest_tfperf.lines import Line
from pytest_tfperf.lines import command as command_line
from pytest_tfperf.reports.advice import ADVICE
from pytest_tfperf.reports.numbers import counted, duration, percent
from pytest_tfperf.reports.table import shown_names

_MOST_RATIOS = 3

_Published = tuple[Measurement, Baseline]


def unrecorded(
    found: UnrecordedTests, measurements: Sequence[Measurement], *, baselines: str, command: str, seconds: float
) -> list[Line]:
    """One paragraph: what was judged, how steady the machine is, the documents, what can be detected, the next step.

    Args:
        found: of these tests.
        measurements: all of the session's.
        baselines: the folder of the baselines, as it is shown.
        command: records them.
        seconds: how long that will take.
    """
    return [
        Line(_fact(found, baselines)),
        *_noise(found),
        *_documents(measurements),
        *_detectable(found),
        *_disturbed(found),
        command_line("record", command, f"about {duration(seconds)}; then commit {baselines}"),
    ]


def required(found: UnrecordedTests, *, baselines: str) -> str:
    """What the nightly gate says, where such tests failed and each has a message of its own."""
    return f"{found.tests} without a baseline: record them with --update-baselines, then commit {baselines}"


def _fact(found: UnrecordedTests, baselines: str) -> str:
    rest = found.tests - found.judged
    parts = [f"{rest} measured and not judged, because no earlier session here serves as a reference"] if rest else []
    if found.judged:
        parts.append(f"{found.judged} judged against earlier sessions here (provisional), which warn and never fail")
    return f"without a row in {baselines}: {'; '.join(parts)}"


def _noise(found: UnrecordedTests) -> Iterator[Line]:
    within = "unknown" if found.within_runs is None else percent(found.within_runs)
    between = found.between_runs
    known = "shown after a later session" if between is None else f"{percent(between)} (standard deviation)"
    yield Line(f"within a run {within} (standard error); between runs {known}", "noise")


def _detectable(found: UnrecordedTests) -> Iterator[Line]:
    if found.detectable is None:
        return
    text = f"the next session warns of slowdowns from {percent(found.detectable)}"
    if found.too_noisy_to_record:
        text += "; most runs differ too much for a baseline: free the machine of other work before you record"
    elif found.detectable_recorded is not None:
        text += f"; with recorded baselines tests fail from {percent(found.detectable_recorded)}"
    yield Line(f"{text} (95 % power, median over tests)", "detectable")


def _disturbed(found: UnrecordedTests) -> Iterator[Line]:
    if not found.disturbances:
        return
    kinds = Counter(found.disturbances).most_common()
    text = f"{len(found.disturbances)} of {found.tests} ({', '.join(kind for kind, _ in kinds)}), which are no "
    yield Line(f"{text}reference for the next session: {ADVICE[kinds[0][0]]}", "disturbed")


def _documents(measurements: Sequence[Measurement]) -> Iterator[Line]:
    """How this machine compares with one document's machine, and a few ratios beside the document's."""
    published = [(m, m.document) for m in measurements if m.document is not None]
    if not published:
        return
    machine = Counter(row.machine for _, row in published).most_common(1)[0][0]
    alike = [(m, row) for m, row in published if row.machine == machine]
    times = sorted(m.throughput.examples_per_sec / row.reference for m, row in alike)
    spread = f"{times[0]:.2f}" + (f" to {times[-1]:.2f}" if len(times) > 1 else "")
    text = f"{spread} times the {counted(len(alike), 'published figure')} of {machine} for these workloads"
    yield Line(text, "documents")
    for one, other in _comparable(alike)[:_MOST_RATIOS]:
        yield Line(_ratio(one, other), "")


def _comparable(published: Sequence[_Published]) -> list[tuple[_Published, _Published]]:
    """Pairs that differ in the topology or in the workload, not in both; each with the larger second."""
    pairs = combinations(published, 2)
    return [(a, b) for a, b in pairs if (a[0].workload == b[0].workload) != (a[0].topology == b[0].topology)]


def _ratio(base: _Published, one: _Published) -> str:
    (over, over_row), (m, row) = base, one
    here = m.throughput.examples_per_sec / over.throughput.examples_per_sec
    names = shown_names((each.workload.id, each.name) for each in (over, m))
    what = f"{names[m.workload.id, m.name]} on {m.topology} over "
    what += over.topology if m.workload == over.workload else names[over.workload.id, over.name]
    return f"{what}: {here:.2f} here, {row.reference / over_row.reference:.2f} there"
