"""Interleaved comparisons: a message for each, and the table that shows both sides and their ratio."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.rerun_command import FROM_ROOTDIR, RerunCommand
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.core.workload import shown_name
from pytest_tfperf.lines import Line, command
from pytest_tfperf.reports.breakdown import bound_by, breakdown_lines
from pytest_tfperf.reports.figures import bad_figures, compared_figure_lines, figure_fact, figures_to_blame
from pytest_tfperf.reports.invalid import advice_on_comparison, disturbance_fact, disturbed_pairs, invalid_comparison
from pytest_tfperf.reports.measurement_table import (
    ACT_FIRST,
    OutcomeRow,
    outcome,
    outcome_table,
    rate_cell,
    rate_heading,
)
from pytest_tfperf.reports.message import message as of_a_measurement
from pytest_tfperf.reports.numbers import change, compared, percent, rate
from pytest_tfperf.reports.table import Columns, Named, shown_names

_DISTINGUISHING = ("commit", "packages", "tensorflow", "torch", "jax", "python")

_RIGHT = {"b / a", "pairs"}


def comparison_table(comparisons: Iterable[Comparison], width: int | None = None) -> list[str | OutcomeRow]:
    """A row for each comparison, those that need action first; an INVALID one has no ratio.

    `width` is the terminal's, None for no limit.
    """
    in_order = sorted(comparisons, key=lambda c: ACT_FIRST.index(c.outcome))
    return _table([(c, {}) for c in in_order], width)


def latest_comparisons(comparisons: Iterable[Comparison], width: int | None = None) -> list[str | OutcomeRow]:
    """A row for the latest comparison of each two sides, with its machine and time."""
    latest = {(c.machine, c.topology, c.a.workload, *sides(c)): c for c in comparisons}
    return _table([(c, {"machine": c.machine, "when": c.time}) for c in latest.values()], width)


def _table(
    comparisons: Sequence[tuple[Comparison, dict[str, str | None]]], width: int | None
) -> list[str | OutcomeRow]:
    """A row for each comparison, with its further columns."""
    both = [side for c, _ in comparisons for side in (c.a, c.b)]
    heading = rate_heading(side.throughput for side in both)
    names = shown_names((side.workload.id, side.name) for side in both)
    columns = Columns(
        right=_RIGHT | {f"a {heading}", f"b {heading}"},
        optional=("95 % CI", f"b {heading}", f"a {heading}", "when", "machine", "b bound", "a bound", "pairs"),
        ids=("workload", "a", "b"),
    )
    rows = [_row(c, heading, names) | more for c, more in comparisons]
    return outcome_table(rows, [c.outcome for c, _ in comparisons], columns, width)


def _row(c: Comparison, heading: str, names: Mapping[Named, str]) -> dict[str, str | None]:
    a_name, b_name = (names[side.workload.id, side.name] for side in (c.a, c.b))
    is_same = c.a.workload == c.b.workload
    a, b = sides(c) if is_same else (a_name, b_name)
    is_valid = c.of_ratio is not Outcome.INVALID
    return {
        "outcome": outcome(c),
        "workload": a_name if is_same else None,
        "topology": c.topology,
        "a": a,
        f"a {heading}": rate_cell(c.a.throughput, heading),
        "a bound": bound_by(c.a.breakdown),
        "b": b,
        f"b {heading}": rate_cell(c.b.throughput, heading),
        "b bound": bound_by(c.b.breakdown),
        "b / a": f"{c.ratio:.3f}" if is_valid else None,
        "95 % CI": _interval(c) if is_valid else None,
        "pairs": str(len(c.pairs)),
    }


def sides(comparison: Comparison) -> tuple[str, str]:
    """Names for a and b: their workloads, or the software that differs between them."""
    a, b = comparison.a, comparison.b
    if a.workload != b.workload:
        names = shown_names((side.workload.id, side.name) for side in (a, b))
        return names[a.workload.id, a.name], names[b.workload.id, b.name]
    for name in _DISTINGUISHING:
        if a.environment.get(name) != b.environment.get(name):
            return f"{name} {a.environment.get(name, '?')}", f"{name} {b.environment.get(name, '?')}"
    return "a", "b"


def message(comparison: Comparison, rerun: RerunCommand = FROM_ROOTDIR) -> list[Line]:
    """A comparison in a few lines, the first of which stands alone; `rerun` measures it again."""
    if figures := figures_to_blame(comparison):
        return [*_of_figures(comparison, figures), *_lines(comparison, rerun)]
    said = [Line(f"{one.outcome}: {figure_fact(one)}", "figure") for one in bad_figures(comparison)]
    return [Line(headline(comparison)), *said, *_lines(comparison, rerun)]


def _of_figures(c: Comparison, figures: Sequence[Verdict]) -> Iterator[Line]:
    """The beginning of the message where figures are to blame and the ratio is not."""
    yield Line(f"{figure_fact(figures[0])}: {shown_name(c.b.workload.id, c.b.name)} on {c.devices} ({c.machine})")
    for one in figures:
        if one is not figures[0]:
            yield Line(figure_fact(one), "and")
        yield from compared_figure_lines(c, one)
    ratio = f"b is {compared(c.ratio - 1)} a, ratio {c.ratio:.3f}, 95 % CI {_interval(c)}"
    yield Line(f"{c.of_ratio}: {ratio}", "throughput")


def message_of(result: Measurement | Comparison, rerun: RerunCommand = FROM_ROOTDIR) -> list[Line]:
    """The message about a judged result of either kind."""
    return message(result, rerun) if isinstance(result, Comparison) else of_a_measurement(result, rerun)


def headline(comparison: Comparison) -> str:
    """Both sides, devices, machine and ratio in one line."""
    c = comparison
    a, b = sides(c)
    what = "" if c.a.workload != c.b.workload else f"{shown_name(c.a.workload.id, c.a.name)}, "
    if c.of_ratio is Outcome.INVALID:  # a reader would take its ratio for a result
        return f"{what}{b} against {a} on {c.devices} ({c.machine}): {reason_of(c)}"
    ratio = f"ratio {c.ratio:.3f}, 95 % CI {_interval(c)}"
    return f"{what}{b} is {compared(c.ratio - 1)} {a} on {c.devices} ({c.machine}): {ratio}"


def in_brief(comparison: Comparison) -> str:
    """The outcome of a judged comparison in a few words, for a line that names the test already."""
    c = comparison
    if figures := figures_to_blame(c):
        return "; ".join(f"{one.outcome}: {figure_fact(one)}" for one in figures)
    if c.of_ratio is Outcome.INVALID:
        return reason_of(c)
    return f"{c.of_ratio}: b is {compared(c.ratio - 1)} a, ratio {c.ratio:.3f}"


def reason_of(c: Comparison) -> str:
    """Why it has its outcome."""
    return invalid_comparison(c) if c.of_ratio is Outcome.INVALID else c.reason


def _lines(c: Comparison, rerun: RerunCommand) -> Iterator[Line]:
    for name, side, shown in zip("ab", (c.a, c.b), sides(c), strict=True):
        text = f"{rate(side.throughput.examples_per_sec)} {side.throughput.unit}/s"
        yield Line(text if shown == name else f"{text}: {shown}", name)
    lower = c.tolerance.lower
    text = "any slowdown" if lower is None else f"{percent(lower)}: down to a ratio of {1 + lower:g}"
    yield Line(text, "tolerance")
    if c.pairs:
        reason = "" if c.of_ratio is Outcome.INVALID else f": {c.reason}"
        yield Line("  ".join(change(math.expm1(x)) for x in c.log_ratios) + reason, "pairs")
    if c.of_ratio is not Outcome.INVALID:
        yield from disturbed_pairs(c.pairs)
    for pair in c.discarded_pairs:
        why = disturbance_fact(pair.disturbance) if pair.disturbance else "unknown"
        yield Line(f"{change(math.expm1(pair.log_ratio))}: {why}", "discarded")
    for name, side in zip("ab", (c.a, c.b), strict=True):
        slower_than = c.a.throughput.examples_per_sec if name == "b" and c.of_ratio is Outcome.REGRESSED else None
        about = breakdown_lines(side.breakdown, side.throughput, slower_than)
        yield from (Line(line.text, f"{name}'s {line.label}") for line in about)
    a, b = c.a.environment, c.b.environment
    if changed := [f"{name} {a[name]} -> {b[name]}" for name in sorted(a.keys() & b.keys()) if a[name] != b[name]]:
        yield Line(", ".join(changed), "environment")
    if c.of_ratio is Outcome.INVALID:
        yield from advice_on_comparison(c)
    if "::" in c.test and c.outcome is not Outcome.PASS:
        yield command("rerun", rerun.of(c.test))


def _interval(c: Comparison) -> str:
    return f"{c.low:.3f} to {c.high:.3f}" if math.isfinite(c.high) else "unknown"
