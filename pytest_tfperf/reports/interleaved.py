"""Measurements beside another side: the message about each, and the table of both sides and their ratio."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_tfperf.core.measurement import MeasuredSide, Measurement
from pytest_tfperf.core.rerun_command import RerunCommand
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.core.workload import shown_name
from pytest_tfperf.lines import Line, command
from pytest_tfperf.reports.acknowledgement import lines_about_owner
from pytest_tfperf.reports.breakdown import bound_by, breakdown_lines
from pytest_tfperf.reports.figures import (
    bad_figures,
    figure_fact,
    figure_lines,
    figures_to_blame,
    ways_out_of_doubt,
)
from pytest_tfperf.reports.invalid import (
    advice_on_interleaved,
    disturbance_fact,
    disturbed_pairs,
    fallback_fact,
    invalid_interleaved,
)
from pytest_tfperf.reports.measurement_table import (
    ACT_FIRST,
    OutcomeRow,
    outcome,
    outcome_table,
    rate_cell,
    rate_heading,
)
from pytest_tfperf.reports.numbers import change, compared, counted, percent, rate
from pytest_tfperf.reports.table import Columns, Named, shown_names

_DISTINGUISHING = ("commit", "packages", "tensorflow", "torch", "jax", "python")

_RIGHT = {"b / a", "pairs"}


def interleaved_table(measurements: Iterable[Measurement], width: int | None = None) -> list[str | OutcomeRow]:
    """Return a table of the measurements beside another side, those that need action first.

    An INVALID measurement has no ratio. `width` is the terminal's, None for no limit.
    """
    in_order = sorted(_beside(measurements), key=lambda both: ACT_FIRST.index(both[0].outcome))
    return _table([(m, a, {}) for m, a in in_order], width)


def latest_interleaved(measurements: Iterable[Measurement], width: int | None = None) -> list[str | OutcomeRow]:
    """Return a table of the latest measurement of each pair of sides, with its machine and time."""
    latest = {(m.machine, m.topology, a.workload, *sides(m)): (m, a) for m, a in _beside(measurements)}
    return _table([(m, a, {"machine": m.machine, "when": m.time}) for m, a in latest.values()], width)


def _beside(measurements: Iterable[Measurement]) -> list[tuple[Measurement, MeasuredSide]]:
    return [(m, m.other) for m in measurements if m.other is not None]


def _table(
    measurements: Sequence[tuple[Measurement, MeasuredSide, dict[str, str | None]]], width: int | None
) -> list[str | OutcomeRow]:
    """Return a table of both sides of each measurement, with further columns."""
    all_sides: list[Measurement | MeasuredSide] = [side for b, a, _ in measurements for side in (a, b)]
    heading = rate_heading(side.throughput for side in all_sides)
    names = shown_names((side.workload.id, side.name) for side in all_sides)
    columns = Columns(
        right=_RIGHT | {f"a {heading}", f"b {heading}"},
        optional=("95 % CI", f"b {heading}", f"a {heading}", "when", "machine", "b bound", "a bound", "pairs"),
        ids=("workload", "a", "b"),
    )
    rows = [_row(b, a, heading, names) | more for b, a, more in measurements]
    return outcome_table(rows, [b.outcome for b, _, _ in measurements], columns, width)


def _row(b: Measurement, a: MeasuredSide, heading: str, names: Mapping[Named, str]) -> dict[str, str | None]:
    a_name, b_name = (names[side.workload.id, side.name] for side in (a, b))
    is_same = a.workload == b.workload
    a_shown, b_shown = sides(b) if is_same else (a_name, b_name)
    return {
        "outcome": outcome(b),
        "workload": a_name if is_same else None,
        "topology": b.topology,
        "a": a_shown,
        f"a {heading}": rate_cell(a.throughput, heading),
        "a bound": bound_by(a.breakdown),
        "b": b_shown,
        f"b {heading}": rate_cell(b.throughput, heading),
        "b bound": bound_by(b.breakdown),
        "b / a": f"{b.ratio:.3f}" if b.is_valid else None,
        "95 % CI": _interval(b) if b.is_valid else None,
        "pairs": str(len(b.pairs)),
    }


def sides(b: Measurement) -> tuple[str, str]:
    """Return names for a and b: their workloads, or the software that differs between them."""
    a = b.other
    if a is None:
        return "a", "b"
    names = shown_names((side.workload.id, side.name) for side in (a, b))
    a_name, b_name = names[a.workload.id, a.name], names[b.workload.id, b.name]
    if a.topology:
        return f"{a_name} on {a.topology}", f"{b_name} on {b.topology}"
    if a.workload != b.workload:
        return a_name, b_name
    for name in _DISTINGUISHING:
        if a.environment.get(name) != b.environment.get(name):
            return f"{name} {a.environment.get(name, '?')}", f"{name} {b.environment.get(name, '?')}"
    return "a", "b"


def interleaved_message(b: Measurement, a: MeasuredSide, rerun: RerunCommand) -> list[Line]:
    """Return the message about a measurement beside side a, whose first line alone explains the outcome."""
    if figures := figures_to_blame(b):
        return [*_of_figures(b, figures), *_lines(b, a, rerun)]
    notes = [Line(f"{verdict.outcome}: {figure_fact(verdict)}", "figure") for verdict in bad_figures(b)]
    return [Line(interleaved_headline(b, a)), *notes, *_lines(b, a, rerun)]


def _of_figures(b: Measurement, figures: Sequence[Verdict]) -> Iterator[Line]:
    """Yield the beginning of the message where figures, and not the ratio, cause the outcome."""
    yield Line(f"{figure_fact(figures[0])}: {shown_name(b.workload.id, b.name)} on {b.devices} ({b.machine})")
    for verdict in figures:
        if verdict is not figures[0]:
            yield Line(figure_fact(verdict), "and")
        yield from figure_lines(b, verdict)
    yield Line(f"{b.verdicts[0].outcome}: b is {compared(b.ratio - 1)} a, {_ratio(b)}", "throughput")


def interleaved_headline(b: Measurement, a: MeasuredSide) -> str:
    """Return a line with both sides, devices, machine and ratio."""
    a_shown, b_shown = sides(b)
    subject = "" if a.workload != b.workload else f"{shown_name(a.workload.id, a.name)}, "
    if not b.is_valid:  # a reader would take its ratio for a result
        return f"{subject}{b_shown} against {a_shown} on {b.devices} ({b.machine}): {invalid_interleaved(b, a)}"
    if a.at_least is not None:
        return (
            f"{subject}{b_shown} over {a_shown} on {b.devices} ({b.machine}): {_ratio(b)}, {_required(b, a.at_least)}"
        )
    return f"{subject}{b_shown} is {compared(b.ratio - 1)} {a_shown} on {b.devices} ({b.machine}): {_ratio(b)}"


def interleaved_in_brief(b: Measurement, a: MeasuredSide) -> str:
    """Return the outcome in a few words, for a line that names the test already."""
    if figures := figures_to_blame(b):
        return "; ".join(f"{verdict.outcome}: {figure_fact(verdict)}" for verdict in figures)
    if not b.is_valid:
        return invalid_interleaved(b, a)
    if a.at_least is not None:
        return f"{b.verdicts[0].outcome}: ratio {b.ratio:.3f}, {_required(b, a.at_least)}"
    return f"{b.verdicts[0].outcome}: b is {compared(b.ratio - 1)} a, ratio {b.ratio:.3f}"


def why_of(b: Measurement) -> str:
    """Return the reason for the ratio's outcome, and why an undecided comparison has no more pairs."""
    assert b.other is not None, "only a measurement beside another side has a ratio"
    if not b.is_valid:
        return invalid_interleaved(b, b.other)
    why = f"{b.verdicts[0].why} in {counted(len(b.pairs), 'fresh pair')}"
    return "; ".join(filter(None, (why, b.other.ended or "", fallback_fact(b.other))))


def _lines(b: Measurement, a: MeasuredSide, rerun: RerunCommand) -> Iterator[Line]:
    verdict = b.verdicts[0]
    for name, throughput, shown in zip("ab", (a.throughput, b.throughput), sides(b), strict=True):
        text = f"{rate(throughput.examples_per_sec)} {throughput.unit}/s"
        yield Line(text if shown == name else f"{text}: {shown}", name)
    if a.at_least is None:
        lower = verdict.tolerance.lower if verdict.tolerance else None
        text = "any slowdown" if lower is None else f"{percent(lower)}: down to a ratio of {1 + lower:g}"
        yield Line(text, "tolerance")
    elif a.document is None or b.document is None:
        yield Line(f"fails below {a.at_least:g}    (at_least, in the test)", "threshold")
    else:
        of_documents = f"the documents' {b.document.value / a.document.value:.3f}, less the tolerance"
        yield Line(f"fails below {a.at_least:.3f}    ({of_documents})", "threshold")
        figures = f"{rate(b.document.value)} / {rate(a.document.value)} on {b.document.machine}"
        yield Line(f"{figures}: {b.document.source}; over {a.document.source}", "document")
    changes = "  ".join(change(math.expm1(pair.log_ratio)) for pair in b.pairs)
    yield Line(f"{changes}: {why_of(b)}" if b.is_valid else changes, "pairs")
    if a.doubt:
        yield Line(a.doubt, "doubt")
    if b.is_valid:
        yield from disturbed_pairs(b.pairs)
    for pair in b.discarded_pairs:
        why = disturbance_fact(pair.disturbance) if pair.disturbance else "unknown"
        yield Line(f"{change(math.expm1(pair.log_ratio))}: {why}", "discarded")
    for name, lines in (
        ("a", breakdown_lines(a.breakdown, a.throughput)),
        ("b", breakdown_lines(b.breakdown, b.throughput)),
    ):
        yield from (Line(line.text, f"{name}'s {line.label}") for line in lines)
    then, now = a.environment, b.environment
    names = sorted(then.keys() & now.keys())
    if changed := [f"{name} {then[name]} -> {now[name]}" for name in names if then[name] != now[name]]:
        yield Line(", ".join(changed), "environment")
    yield from lines_about_owner(b)
    if b.is_valid:
        low, high = b.ratio_interval
        more = "" if a.is_of_session else ": max_pairs=, max_seconds="
        yield from ways_out_of_doubt(verdict, b.ratio - 1, (low - 1, high - 1), len(b.pairs), "pair", more)
    else:
        yield from advice_on_interleaved(b, a)
    if b.is_test and b.outcome is not Outcome.PASS:
        yield command("rerun", rerun.of(b.test))


def _required(b: Measurement, least: float) -> str:
    far = f"{percent(1 - b.ratio / least)} below" if b.ratio < least else "at least"
    return f"{far} the required {least:.3f}"


def _ratio(b: Measurement) -> str:
    return f"ratio {b.ratio:.3f}, 95 % CI {_interval(b)}"


def _interval(b: Measurement) -> str:
    low, high = b.ratio_interval
    return f"{low:.3f} to {high:.3f}" if math.isfinite(high) else "unknown"
