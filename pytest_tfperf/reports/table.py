"""The one renderer of all tables: aligned columns under a heading."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence


def table(rows: Iterable[Mapping[str, str | None]], right: Collection[str] = ()) -> list[str]:
    """The heading and one line for each row, nothing without rows; a column without any value is left out.

    Args:
        rows: a column's name -> its text, None or "" for no value; the same names in each row.
        right: the columns to align to the right, as numbers are.
    """
    if not (rows := list(rows)):
        return []
    names = [name for name in rows[0] if any(row[name] for row in rows)]
    lines = [names, *([row[name] or "-" for name in names] for row in rows)]
    return aligned(lines, {i for i, name in enumerate(names) if name in right})


def aligned(lines: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Lines of cells with each column as wide as its widest cell; `right` has the columns to align to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = [">" if i in right else "<" for i in range(len(widths))]
    return ["  ".join(f"{c:{s}{w}}" for c, s, w in zip(line, sides, widths, strict=True)).rstrip() for line in lines]
