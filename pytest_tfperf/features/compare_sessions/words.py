"""Two sessions, exports or revisions of baselines side by side."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_tfperf.core.measurement import environment_changes
from pytest_tfperf.features.compare_sessions.side_comparison import Figure, Ratio, SideComparison
from pytest_tfperf.reports.numbers import change, counted, percent, rate
from pytest_tfperf.reports.table import Columns, shown_names, table

_COLUMNS = Columns(
    right={"a", "b", "b / a", "change", "own change", "noise"},
    optional=("own change", "95 % CI", "noise", "b", "a", "unit", "machine"),
    ids=("workload",),
)
_MOST_NAMED = 10


def render(compared: SideComparison, a: str, b: str, width: int | None = None) -> str:
    """Both sides' names, the table, the common change, what is missing, and a conclusion."""
    names = [f"a: {a}", f"b: {b}"]
    blocks = [names, table(_rows(compared), _COLUMNS, width), list(_facts(compared)), [conclusion(compared)]]
    return "\n\n".join("\n".join(lines) for lines in blocks if lines)


def conclusion(compared: SideComparison) -> str:
    """ "2 of 12 workloads moved by more than noise explains: 1 slower, 1 faster."."""
    if not compared.ratios:
        return "No workload is on both sides."
    moved, workloads = compared.moved, counted(len(compared.ratios), "workload")
    if not moved:
        return f"None of {workloads} moved by more than noise explains."
    movements = Counter(one.movement for one in moved)  # slower ones come first
    counts = ", ".join(f"{count} {word}" for word, count in movements.items())
    return f"{len(moved)} of {workloads} moved by more than noise explains: {counts}."


def _rows(compared: SideComparison) -> Iterator[Mapping[str, str | None]]:
    ratios, common = compared.ratios, compared.common
    names = shown_names((one.b.key.workload, one.b.name) for one in ratios)
    several = len({figure.machine for one in ratios for figure in (one.a, one.b)}) > 1
    for one in ratios:
        machines = dict.fromkeys((one.a.machine, one.b.machine))
        yield {
            "moved": one.movement.value,
            "machine": " -> ".join(machines) if several else None,
            "workload": names[one.b.key.workload, one.b.name],
            "topology": one.b.key.topology,
            "a": _rate(one.a),
            "b": _rate(one.b),
            "unit": f"{one.b.unit}/s",
            "b / a": f"{one.ratio:.3f}",
            "95 % CI": f"{one.low:.3f} to {one.high:.3f}",
            "change": change(one.ratio - 1),
            "own change": None if common is None else change(one.ratio / (1 + common) - 1),
            "noise": percent(one.noise),
        }


def _rate(figure: Figure) -> str:
    return rate(math.exp(figure.log_rate))


def _facts(compared: SideComparison) -> Iterator[str]:
    if compared.common is not None:
        interval = f"95 % CI {change(compared.common_low)} to {change(compared.common_high)}"
        yield f"in common    {change(compared.common)} ({interval}): taken out of each workload's own change"
    elif compared.ratios:
        yield "in common    not known: fewer than 8 workloads, so noise includes what a session does to all of them"
    yield from _named("only in a", compared.only_a)
    yield from _named("only in b", compared.only_b)
    yield from _named("other unit", [b for _, b in compared.other_units])
    if changed := _changed(compared.ratios):
        yield f"environment  {', '.join(changed[:_MOST_NAMED])}"


def _named(label: str, figures: Sequence[Figure]) -> Iterator[str]:
    if figures:
        names = [f"{figure.name or figure.key.workload} {figure.key.topology}" for figure in figures]
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        yield f"{label:<12} {', '.join(names[:_MOST_NAMED])}{more}"


def _changed(ratios: Iterable[Ratio]) -> list[str]:
    """The differences between the environments of both sides, each once: "tensorflow 2.16.2 -> 2.21.0"."""
    return list(
        dict.fromkeys(text for one in ratios for text in environment_changes(one.a.environment, one.b.environment))
    )
