"""Interleaved comparisons: a message for each, and the table that shows both sides and their ratio."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.rerun_command import FROM_ROOTDIR, RerunCommand
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.reports.advice import advice, loss_advice
from pytest_tfperf.reports.breakdown import bound_by, breakdown_lines
from pytest_tfperf.reports.message import Line, labelled
from pytest_tfperf.reports.numbers import change, compared, duration, percent, rate
from pytest_tfperf.reports.table import Column, table

_DISTINGUISHING = ("tensorflow", "python")

_COLUMNS: Sequence[Column[Comparison]] = (
    Column("workload", lambda c: c.a.workload.id if c.a.workload == c.b.workload else ""),
    Column("topology", lambda c: c.topology),
    Column("a", lambda c: sides(c)[0]),
    Column("images/s", lambda c: rate(c.a.throughput.images_per_sec), right=True),
    Column("bound", lambda c: bound_by(c.a.breakdown)),
    Column("b", lambda c: sides(c)[1]),
    Column("images/s", lambda c: rate(c.b.throughput.images_per_sec), right=True),
    Column("bound", lambda c: bound_by(c.b.breakdown)),
    Column("b / a", lambda c: "" if c.outcome is Outcome.INVALID else f"{c.ratio:.3f}", right=True),
    Column("95 % CI", lambda c: "" if c.outcome is Outcome.INVALID else _interval(c)),
    Column("pairs", lambda c: str(len(c.pairs)), right=True),
    Column("outcome", lambda c: outcome(c)),
)


def comparison_table(comparisons: Iterable[Comparison]) -> list[str]:
    """The comparisons in the order given."""
    return table(_COLUMNS, comparisons)


def latest_comparisons(comparisons: Iterable[Comparison]) -> list[str]:
    """The latest of the comparisons of the same two sides, and when it was made."""
    latest = {(c.machine, c.topology, c.a.workload, *sides(c)): c for c in comparisons}
    return table([*_COLUMNS, Column("machine", lambda c: c.machine), Column("when", lambda c: c.time)], latest.values())


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
    return "\n".join([headline(comparison), *labelled(_lines(comparison, rerun))])


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
        yield name, f"{rate(side.throughput.images_per_sec)} images/s{'' if shown == name else f': {shown}'}"
    lower = c.tolerance.lower
    yield "tolerance", "any slowdown" if lower is None else f"{percent(lower)}: down to a ratio of {1 + lower:g}"
    if c.pairs:
        reason = "" if c.outcome is Outcome.INVALID else f": {c.reason}"
        yield "pairs", "  ".join(change(math.expm1(x)) for x in c.log_ratios) + reason
    for pair in c.discarded_pairs:
        yield "discarded", f"{change(math.expm1(pair.log_ratio))}: {pair.disturbance}"
    yield "time", f"{c.interleaving.value}, {duration(c.seconds)}"
    for name, side in (("a", c.a), ("b", c.b)):
        slower_than = c.a.throughput.images_per_sec if side is c.b and c.outcome is Outcome.REGRESSED else None
        about = breakdown_lines(side.breakdown, side.workload, side.throughput.images_per_sec, slower_than)
        yield from ((f"{name}'s {label}", text) for label, text in about)
    if changed := _environment_changes(c):
        yield "environment", ", ".join(changed)
    yield from (("next", text) for text in _advice(c))
    if "::" in c.test and c.outcome is not Outcome.PASS:
        yield "rerun", rerun.of(c.test)


def _advice(c: Comparison) -> Iterator[str]:
    if c.outcome is not Outcome.INVALID:
        return
    diverged = [side for side in (c.a, c.b) if side.throughput.diverged]
    if diverged:
        yield loss_advice(diverged[0].workload)
    elif c.discarded_pairs and (disturbance := c.discarded_pairs[-1].disturbance):
        yield advice(disturbance.kind)


def _environment_changes(c: Comparison) -> list[str]:
    a, b = c.a.environment, c.b.environment
    return [f"{name} {a[name]} -> {b[name]}" for name in sorted(a.keys() & b.keys()) if a[name] != b[name]]


def _interval(c: Comparison) -> str:
    return f"{c.low:.3f} to {c.high:.3f}" if math.isfinite(c.high) else "unknown"
