"""The paragraph about tests without a recorded baseline: what is known without one, and how to record it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.outlook import Outlook
from pytest_tfperf.reports.advice import ADVICE
from pytest_tfperf.reports.message import Line, with_lines
from pytest_tfperf.reports.numbers import duration, percent


def unrecorded(
    outlook: Outlook, measurements: Sequence[Measurement], *, baselines: str, command: str, seconds: float
) -> list[str]:
    """The lines of the paragraph.

    Args:
        outlook: of these tests.
        measurements: all measurements of the session.
        baselines: the folder of the baselines, as shown to the user.
        command: the command that records them.
        seconds: how long that will take.
    """
    lines = [
        *_noise(outlook),
        *_documents(measurements),
        *_detectable(outlook),
        *_disturbed(outlook),
        ("record", f"{command}    (about {duration(seconds)}; then commit {baselines})"),
    ]
    return with_lines(_fact(outlook, baselines), lines).split("\n")


def required(outlook: Outlook, *, baselines: str) -> str:
    """The line under --tfperf-require-baseline, where each of these tests failed with its own message."""
    return f"{outlook.tests} without a baseline: record them with --update-baselines, then commit {baselines}"


def _fact(outlook: Outlook, baselines: str) -> str:
    rest = outlook.tests - outlook.judged
    parts = [f"{rest} measured and not judged, because no earlier session here serves as a reference"] if rest else []
    if outlook.judged:
        parts.append(f"{outlook.judged} judged against earlier sessions here (provisional), which warn and never fail")
    return f"without a row in {baselines}: {'; '.join(parts)}"


def _noise(outlook: Outlook) -> Iterator[Line]:
    within = "unknown" if outlook.within_runs is None else percent(outlook.within_runs)
    between = outlook.between_runs
    known = "shown after a later session" if between is None else f"{percent(between)} (standard deviation)"
    yield "noise", f"within a run {within} (standard error); between runs {known}"


def _detectable(outlook: Outlook) -> Iterator[Line]:
    if outlook.detectable is None:
        return
    text = f"the next session warns of slowdowns from {percent(outlook.detectable)}"
    if outlook.too_noisy_to_record:
        text += "; most runs differ too much for a baseline: free the machine of other work before you record"
    elif outlook.detectable_recorded is not None:
        text += f"; with recorded baselines tests fail from {percent(outlook.detectable_recorded)}"
    yield "detectable", f"{text} (95 % power, median over tests)"


def _disturbed(outlook: Outlook) -> Iterator[Line]:
    if not outlook.disturbances:
        return
    kinds = Counter(outlook.disturbances).most_common()
    yield (
        "disturbed",
        f"{len(outlook.disturbances)} of {outlook.tests} ({', '.join(kind for kind, _ in kinds)}), which are no "
        f"reference for the next session: {ADVICE[kinds[0][0]]}",
    )


def _documents(measurements: Sequence[Measurement]) -> Iterator[Line]:
    """How this machine compares with the document's machine that has most of these workloads."""
    published = [(m, m.document) for m in measurements if m.document is not None]
    if not published:
        return
    machine = Counter(row.machine for _, row in published).most_common(1)[0][0]
    times = sorted(m.throughput.examples_per_sec / row.reference for m, row in published if row.machine == machine)
    spread = f"{times[0]:.2f}" + (f" to {times[-1]:.2f}" if len(times) > 1 else "")
    yield "documents", f"{spread} times the {len(times)} published figures of {machine} for these workloads"
