"""The one renderer of all tables: aligned columns under a heading."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

_NO_VALUE = "-"


@dataclass(frozen=True)  # without slots: a generic class with slots can't be called as Column[T](...)
class Column(Generic[T]):
    """One column of a table.

    Args:
        name: the heading.
        cell: the text for a row; None or "" where the row has no value.
        right: align to the right, as numbers are.
    """

    name: str
    cell: Callable[[T], str | None]
    right: bool = False


def table(columns: Sequence[Column[T]], rows: Iterable[T]) -> list[str]:
    """The heading and one line for each row; a column without a value in any row is left out."""
    rows = list(rows)
    filled = [(column, [column.cell(row) or _NO_VALUE for row in rows]) for column in columns]
    shown = [(column, cells) for column, cells in filled if any(cell != _NO_VALUE for cell in cells)]
    lines = zip(*([column.name, *cells] for column, cells in shown), strict=True)
    return aligned(list(lines), right={i for i, (column, _) in enumerate(shown) if column.right})


def aligned(lines: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Lines of cells with each column as wide as its widest cell; `right` has the columns to align to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = [">" if i in right else "<" for i in range(len(widths))]
    return ["  ".join(f"{c:{s}{w}}" for c, s, w in zip(line, sides, widths, strict=True)).rstrip() for line in lines]
