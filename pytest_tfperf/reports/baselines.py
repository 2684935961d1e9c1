"""Tables of baselines: of machines, of one machine's rows, of what changed, and of rows that may be out of date."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.reports.numbers import change, percent, rate
from pytest_tfperf.reports.table import Columns, table

_MOST_NAMED = 3  # rows of one note
_FIGURES = ("reference", "unit")
_COLUMNS = tuple(field.name for field in fields(Baseline) if field.name not in ("machine", "key"))


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row on both sides; None on a side that lacks it."""

    old: Baseline | None
    new: Baseline | None

    @property
    def row(self) -> Baseline:
        """The newer of the two."""
        row = self.new or self.old
        assert row is not None, "one side has the row"
        return row

    @property
    def fraction(self) -> float | None:
        """The change of the reference; None if only one side has the row, or if the units differ."""
        if self.old is None or self.new is None or self.old.unit != self.new.unit:
            return None
        return self.new.reference / self.old.reference - 1

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that differ, besides machine and key."""
        if self.old is None or self.new is None:
            return ()
        return tuple(name for name in _COLUMNS if getattr(self.old, name) != getattr(self.new, name))

    @property
    def what(self) -> str:
        """ "added", "removed", "changed" for a new figure, "same figure" if only other columns differ."""
        if self.old is None:
            return "added"
        if self.new is None:
            return "removed"
        return "changed" if set(self.fields) & set(_FIGURES) else "same figure"


def row_changes(
    old: Mapping[tuple[str, Key], Baseline], new: Mapping[tuple[str, Key], Baseline]
) -> tuple[RowChange, ...]:
    """The rows that differ: the largest drop first, then other changes, then rows that only one side has."""
    both = [RowChange(old.get(place), new.get(place)) for place in sorted(old.keys() | new.keys())]
    changed = [one for one in both if one.old is None or one.new is None or one.fields]
    return tuple(sorted(changed, key=lambda one: (one.fraction is None, one.fraction or 0.0)))


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


def row_table(rows: Iterable[Baseline], width: int | None = None) -> list[str]:
    """The rows of one machine."""
    columns = Columns(
        right={"reference", "runs", "between runs"},
        optional=("date", "provenance", "runs", "between runs", "tolerance", "commit", "lock", "source"),
        ids=("workload",),
    )
    return table([_row(row) for row in rows], columns, width)


def note_lines(rows: Collection[Baseline]) -> list[str]:
    """The rows' notes, each once, with the rows that have it."""
    noted: dict[str, list[Baseline]] = {}
    for row in rows:
        noted.setdefault(row.note, []).append(row)
    noted.pop("", None)
    return [f"note: {note} ({_which(of, len(rows))})" for note, of in noted.items()]


def _which(rows: Sequence[Baseline], among: int) -> str:
    if len(rows) == among:
        return "every row" if among > 1 else "this row"
    named = [f"{row.key.workload} on {row.key.topology}" for row in rows[:_MOST_NAMED]]
    return ", ".join([*named, *([f"and {len(rows) - _MOST_NAMED} more"] if len(rows) > _MOST_NAMED else [])])


def _row(row: Baseline) -> dict[str, str | None]:
    return {
        "workload": row.key.workload,
        "topology": row.key.topology,
        "reference": rate(row.reference),
        "unit": f"{row.unit}/s",
        "tolerance": _tolerance(row),
        "runs": str(row.runs),
        "between runs": None if row.between_runs is None else percent(row.between_runs),
        "provenance": row.provenance.value,
        "date": row.date,
        "commit": row.commit[:12],
        "lock": row.lock,
        "source": row.source,
    }


def _tolerance(row: Baseline) -> str | None:
    """ "-5.0 % to +5.0 %"; None if the row has no tolerance."""
    if row.lower is None and row.upper is None:
        return None
    lower, upper = (("default" if bound is None else change(bound)) for bound in (row.lower, row.upper))
    return f"{lower} to {upper}".replace("-inf %", "any").replace("+inf %", "any")


def change_table(changes: Iterable[RowChange], width: int | None = None) -> list[str]:
    """The changes between two sets of rows."""
    columns = Columns(right={"old", "new", "change"}, optional=("date", "columns", "machine"), ids=("workload",))
    return table([_change(one) for one in changes], columns, width)


def _change(one: RowChange) -> dict[str, str | None]:
    others = [name for name in one.fields if name not in _FIGURES]
    return {
        "row": one.what,
        "machine": one.row.machine,
        "workload": one.row.key.workload,
        "topology": one.row.key.topology,
        "old": _figure(one.old),
        "new": _figure(one.new),
        "change": None if one.fraction is None else change(one.fraction),
        "date": one.row.date,
        "columns": ", ".join(others),
    }


def _figure(row: Baseline | None) -> str | None:
    return f"{rate(row.reference)} {row.unit}/s" if row else None


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
