"""What is said of comparisons: a message for each, and the table that shows both sides and their ratio."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.judging.loss import advice, no_number
from pytest_tfperf.reports.commands import rerun
from pytest_tfperf.reports.numbers import change, duration, percent, rate
from pytest_tfperf.reports.where import limit, parts
from pytest_tfperf.settings import AS_IT_STANDS, Again

_TOLD_APART_BY = ("tensorflow", "python")

_COLUMNS: Sequence[tuple[str, str, Callable[[Comparison], str]]] = (
    ("a", "<", lambda c: sides(c)[0]),
    ("images/s", ">", lambda c: rate(c.a.throughput.images_per_sec)),
    ("limit", "<", lambda c: limit(c.a.breakdown)),
    ("b", "<", lambda c: sides(c)[1]),
    ("images/s", ">", lambda c: rate(c.b.throughput.images_per_sec)),
    ("limit", "<", lambda c: limit(c.b.breakdown)),
    ("b / a", ">", lambda c: f"{c.ratio:.3f}"),
    ("95 % interval", "<", lambda c: _interval(c)),
    ("pairs", ">", lambda c: str(len(c.log_ratios))),
    ("outcome", "<", lambda c: outcome(c)),
)


def outcome(comparison: Comparison) -> str:
    """The outcome's word; what was not judged says so."""
    return comparison.outcome.value if comparison.outcome else "compared"


def sides(comparison: Comparison) -> tuple[str, str]:
    """What a and b are called: by their workloads, or by the software that sets them apart."""
    a, b = comparison.a, comparison.b
    if a.workload != b.workload:
        return a.workload.id, b.workload.id
    for name in _TOLD_APART_BY:
        if a.environment.get(name) != b.environment.get(name):
            return f"{name} {a.environment.get(name, '?')}", f"{name} {b.environment.get(name, '?')}"
    return "a", "b"


def table(comparisons: Iterable[Comparison]) -> list[str]:
    """Aligned lines under a heading; what both sides train stands first where it is the same."""
    rows = list(comparisons)
    columns = [("workload", "<", _workload), ("topology", "<", lambda c: c.topology), *_COLUMNS]
    cells = [[name, *(text(c) for c in rows)] for name, _, text in columns]
    widths = [max(map(len, column)) for column in cells]
    shown = [i for i, column in enumerate(cells) if any(cell != "-" for cell in column[1:])]
    lines = range(len(rows) + 1)
    return ["  ".join(f"{cells[i][line]:{columns[i][1]}{widths[i]}}" for i in shown).rstrip() for line in lines]


def message(comparison: Comparison, again: Again = AS_IT_STANDS) -> str:
    """A comparison in a few lines, the first of which can stand alone; `again` as for a record's."""
    return "\n".join([headline(comparison), *(f"  {label:<11} {text}" for label, text in _lines(comparison, again))])


def headline(comparison: Comparison) -> str:
    """Both sides, devices, machine and ratio in one line."""
    c = comparison
    a, b = sides(c)
    what = "" if c.a.workload != c.b.workload else f"{c.a.workload.id}, "
    if c.outcome is Outcome.INVALID:  # a ratio of it would be read as one
        return f"{what}{b} against {a} on {c.devices} ({c.machine}): {c.reason}"
    if abs(c.ratio - 1) < 0.0005:
        word = "is level with"
    else:
        word = f"is {percent(c.ratio - 1)} {'slower' if c.ratio < 1 else 'faster'} than"
    return f"{what}{b} {word} {a} on {c.devices} ({c.machine}): ratio {c.ratio:.3f}, 95 % CI {_interval(c)}"


def _lines(c: Comparison, again: Again) -> Iterator[tuple[str, str]]:
    for name, side, shown in zip("ab", (c.a, c.b), sides(c), strict=True):
        yield name, f"{rate(side.throughput.images_per_sec)} images/s{'' if shown == name else f': {shown}'}"
    lower = c.tolerance.lower
    yield "tolerance", "any drop" if lower is None else f"{percent(lower)}: down to a ratio of {1 + lower:g}"
    reason = "" if c.outcome is Outcome.INVALID else f": {c.reason}"
    yield "pairs", "  ".join(change(math.expm1(x)) for x in c.log_ratios) + reason
    for pair in c.set_aside:
        yield "set aside", f"{change(math.expm1(pair.log_ratio))}: {pair.disturbance}"
    yield "spent", f"{c.how.value}, {duration(c.seconds)}"
    for name, side in (("a", c.a), ("b", c.b)):
        slower_than = c.a.throughput.images_per_sec if side is c.b and c.outcome is Outcome.REGRESSED else None
        for label, text in parts(side.breakdown, side.workload, side.throughput.images_per_sec, slower_than):
            yield f"{name}'s {label}", text
    if differs := _differs(c):
        yield "environment", ", ".join(differs)
    for side in (c.a, c.b):
        if no_number(side.throughput):
            yield "next", advice(side.workload)
            break
    if "::" in c.test and c.outcome is not Outcome.PASS:
        yield "rerun", rerun(c.test, again)


def _differs(c: Comparison) -> list[str]:
    a, b = c.a.environment, c.b.environment
    return [f"{name} {a[name]} -> {b[name]}" for name in sorted(a.keys() & b.keys()) if a[name] != b[name]]


def _workload(c: Comparison) -> str:
    return c.a.workload.id if c.a.workload == c.b.workload else "-"


def _interval(c: Comparison) -> str:
    return f"{c.low:.3f} to {c.high:.3f}" if math.isfinite(c.high) else "unknown"
