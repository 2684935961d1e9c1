"""Lasting changes over sessions as a table."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_tfperf.core.session_verdicts import Change
from pytest_tfperf.reports.figures import shown
from pytest_tfperf.reports.numbers import change as signed
from pytest_tfperf.reports.session_verdicts import ALL_TESTS, commits_of, date_of
from pytest_tfperf.reports.table import Columns, table

_COLUMNS = Columns(
    right={"change", "sessions since"},
    optional=("95 % CI", "commits", "sessions since", "machine", "workload", "topology"),
    ids=("test", "workload"),
)


def change_table(changes: Iterable[Change], width: int | None = None) -> list[str]:
    """One line for each change; `width` is the terminal's, None for no limit."""
    rows = [
        {
            "since": date_of(change),
            "kind": change.kind.value,
            "change": signed(change.size),
            "is": ("worse" if change.is_worse else "better") if change.key and change.key.figure else None,
            "figure": shown(change.key.figure) if change.key and change.key.figure else None,
            "95 % CI": f"{signed(change.low)} to {signed(change.high)}",
            "test": change.test or ALL_TESTS,
            "commits": commits_of(change),
            "sessions since": str(change.sessions_since),
            "workload": change.key.workload if change.key else "",
            "topology": change.key.topology if change.key else "",
            "machine": change.machine,
        }
        for change in changes
    ]
    return table(rows, _COLUMNS, width)
