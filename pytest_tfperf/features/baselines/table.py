"""Tables of baselines: of machines, and of rows that may be out of date."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.reports.table import Columns, table


def machine_table(machines: Mapping[str, Sequence[Baseline]], width: int | None = None) -> list[str]:
    """One line for each machine: the number of rows of each kind, and their dates."""
    return table(
        [_machine(name, rows) for name, rows in machines.items()],
        Columns(right={"rows", "measured", "published", "with lock"}, optional=("last", "first", "with lock")),
        width,
    )


def _machine(name: str, rows: Sequence[Baseline]) -> dict[str, str | None]:
    dates = sorted(row.date for row in rows if row.date)
    measured = sum(row.is_measured for row in rows)
    return {
        "machine": name,
        "rows": str(len(rows)),
        "measured": str(measured),
        "published": str(len(rows) - measured),
        "with lock": str(sum(bool(row.lock) for row in rows)),
        "first": dates[0] if dates else None,
        "last": dates[-1] if dates else None,
    }


def stale_table(stale: Iterable[tuple[Baseline, Sequence[str]]], width: int | None = None) -> list[str]:
    """Rows with the reasons why they may be out of date."""
    rows = [
        {
            "machine": row.machine,
            "workload": row.key.workload,
            "topology": row.key.topology,
            "date": row.date,
            "why": "; ".join(reasons),
        }
        for row, reasons in stale
    ]
    return table(rows, Columns(optional=("why", "date", "machine"), ids=("workload",)), width)
