"""Interleaved comparisons: a message for each, and the table that shows both sides and their ratio."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.rerun_command import FROM_ROOTDIR, RerunCommand
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.reports.advice import ADVICE, loss_advice
from pytest_tfperf.reports.breakdown import bound_by, breakdown_lines
from pytest_tfperf.reports.measurement_table import rate_cell, rate_heading
from pytest_tfperf.reports.message import Line, with_lines
from pytest_tfperf.reports.numbers import change, compared, percent, rate
from pytest_tfperf.reports.table import table

_DISTINGUISHING = ("tensorflow", "python")

_RIGHT = {"b / a", "pairs"}


def comparison_table(comparisons: Iterable[Comparison]) -> list[str]:
    """The comparisons in the order given; the ratio of an INVALID one is left out, as it means nothing."""
    return _table([(c, {}) for c in comparisons])


def latest_comparisons(comparisons: Iterable[Comparison]) -> list[str]:
    """The latest of the comparisons of the same two sides, and when it was made."""
    latest = {(c.machine, c.topology, c.a.workload, *sides(c)): c for c in comparisons}
    return _table([(c, {"machine": c.machine, "when": c.time}) for c in latest.values()])


def _table(comparisons: Sequence[tuple[Comparison, dict[str, str | None]]]) -> list[str]:
    """A row for each comparison, and what else to say of it."""
    heading = rate_heading(side.throughput for c, _ in comparisons for side in (c.a, c.b))
    return table([_row(c, heading) | more for c, more in comparisons], _RIGHT | {f"a {heading}", f"b {heading}"})


def _row(c: Comparison, heading: str) -> dict[str, str | None]:
    a, b = sides(c)
    is_valid = c.outcome is not Outcome.INVALID
    return {
        "workload": c.a.workload.id if c.a.workload == c.b.workload else None,
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
        "outcome": outcome(c),
    }


def outcome(comparison: Comparison) -> str:
    """The word for the outcome; "compared" where nothing was judged."""
    return comparison.outcome.value if comparison.outcome else "compared"


def sides(comparison: Comparison) -> tuple[str, str]:
    """Names for a and b: their workloads, or else the software that differs between them."""
    a, b = comparison.a, comparison.b
    if a.workload != b.workload:
        return a.workload.id, b.workload.id
    for name in _DISTINGUISHING:
        if a.environment.get(name) != b.environment.get(name):
            return f"{name} {a.environment.get(name, '?')}", f"{name} {b.environment.get(name, '?')}"
    return "a", "b"


def message(comparison: Comparison, rerun: RerunCommand = FROM_ROOTDIR) -> str:
    """A comparison in a few lines, the first of which stands alone; `rerun` measures it again."""
    return with_lines(headline(comparison), _lines(comparison, rerun))


def headline(comparison: Comparison) -> str:
    """Both sides, devices, machine and ratio in one line."""
    c = comparison
    a, b = sides(c)
    what = "" if c.a.workload != c.b.workload else f"{c.a.workload.id}, "
    if c.outcome is Outcome.INVALID:  # its ratio would be taken for a result
        return f"{what}{b} against {a} on {c.devices} ({c.machine}): {c.reason}"
    ratio = f"ratio {c.ratio:.3f}, 95 % CI {_interval(c)}"
    return f"{what}{b} is {compared(c.ratio - 1)} {a} on {c.devices} ({c.machine}): {ratio}"


def _lines(c: Comparison, rerun: RerunCommand) -> Iterator[Line]:
    for name, side, shown in zip("ab", (c.a, c.b), sides(c), strict=True):
        yield (
            name,
            f"{rate(side.throughput.examples_per_sec)} {side.throughput.unit}/s{'' if shown == name else f': {shown}'}",
        )
    lower = c.tolerance.lower
    yield "tolerance", "any slowdown" if lower is None else f"{percent(lower)}: down to a ratio of {1 + lower:g}"
    if c.pairs:
        reason = "" if c.outcome is Outcome.INVALID else f": {c.reason}"
        yield "pairs", "  ".join(change(math.expm1(x)) for x in c.log_ratios) + reason
    for pair in c.discarded_pairs:
        yield "discarded", f"{change(math.expm1(pair.log_ratio))}: {pair.disturbance}"
    for name, side in zip("ab", (c.a, c.b), strict=True):
        slower_than = c.a.throughput.examples_per_sec if name == "b" and c.outcome is Outcome.REGRESSED else None
        about = breakdown_lines(side.breakdown, side.throughput, slower_than)
        yield from ((f"{name}'s {label}", text) for label, text in about)
    a, b = c.a.environment, c.b.environment
    if changed := [f"{name} {a[name]} -> {b[name]}" for name in sorted(a.keys() & b.keys()) if a[name] != b[name]]:
        yield "environment", ", ".join(changed)
    if c.outcome is Outcome.INVALID:
        yield from _advice(c)
    if "::" in c.test and c.outcome is not Outcome.PASS:
        yield "rerun", rerun.of(c.test)


def _advice(c: Comparison) -> Iterator[Line]:
    for side in (c.a, c.b):
        if side.throughput.diverged:
            yield "next", loss_advice(side.workload)
            return
    if c.discarded_pairs and (disturbance := c.discarded_pairs[-1].disturbance):
        yield "next", ADVICE[disturbance.kind]


def _interval(c: Comparison) -> str:
    return f"{c.low:.3f} to {c.high:.3f}" if math.isfinite(c.high) else "unknown"
