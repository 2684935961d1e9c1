"""Tables of a Markdown page, the figures in their cells, and the rows that are made of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pytest_tfperf.core.baseline import PUBLISHED_TOLERANCE, Baseline, Key, Provenance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError

_RULER = re.compile(r"[\s|:-]*-[\s|:-]*")
_FIGURE = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class Figure:
    """A published figure, and its place: the document's file, the table, and the names of row and column."""

    document: str
    table: str
    row: str
    column: str
    images_per_sec: float

    @property
    def place(self) -> str:
        """The place in one line, as a baseline's `source` has it."""
        return f"{self.document}, {self.table}, {self.row}, {self.column}"


@dataclass(frozen=True, slots=True)
class Table:
    """A pipe table: the last text above it, the names of its columns, and its rows' cells."""

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(page: str, name: str) -> list[Table]:
    """All tables of a page; a row with more or fewer cells than columns is a TfperfError."""
    found: list[Table] = []
    heading = ""
    lines = iter(page.split("\n"))
    previous = ""
    for line in lines:
        if "|" in previous and "|" in line and _RULER.fullmatch(line):
            columns, rows = _cells(previous), []
            for row in lines:
                if not row.strip():
                    break
                rows.append(_cells(row))
                if len(rows[-1]) != len(columns):
                    raise TfperfError(f"{name}: {row!r} has {len(rows[-1])} cells under {len(columns)} columns")
            found.append(Table(heading, columns, tuple(rows)))
        elif "|" not in line:
            heading = line.strip() or heading
        previous = line
    return found


def number(cell: str, name: str) -> float:
    """A cell's images per second; 0 or empty is how the documents write "not measured".

    Raises:
        TfperfError: the cell holds something else.
    """
    if cell and not _FIGURE.fullmatch(cell):
        raise TfperfError(f"{name}: {cell!r} is not a figure. Give images/s, as 1612 or 789.51")
    return float(cell or 0)


def require(page: str, name: str, *facts: str) -> None:
    """Check that a page states the versions that its rows name.

    Raises:
        TfperfError: it does not have one of these texts.
    """
    for fact in facts:
        if fact not in page:
            raise TfperfError(f"{name}: it does not say {fact!r}")


def published(machine: str, workload: Workload, topology: str, figure: Figure, **more: Any) -> Baseline:
    """The row of a published figure; `more` is what else a `Baseline` holds."""
    return Baseline(
        machine=machine,
        key=Key(workload.id, topology),
        value=figure.images_per_sec,
        lower=-PUBLISHED_TOLERANCE,
        upper=PUBLISHED_TOLERANCE,
        provenance=Provenance.PUBLISHED,
        **{"source": figure.place, **more},
    )


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|"))
