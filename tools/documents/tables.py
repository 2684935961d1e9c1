"""Tables and code blocks of a Markdown page, with their line numbers, and the figures in a table's cells."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_tfperf.errors import DocumentError

_RULER = re.compile(r"[\s|:-]*-[\s|:-]*")
_FIGURE = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table: its line in the page, from 1, and its cells without the space around them."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A pipe table: the last text above it, the names of its columns, its rows."""

    heading: str
    header: Row
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced code block, byte for byte, the heading of its section (without the marks) and the text in between."""

    heading: str
    intro: str
    line: int
    text: str


def tables(text: str, name: str) -> list[Table]:
    """All tables of a page; a row whose cells do not match the columns is a DocumentError."""
    lines = text.split("\n")
    found: list[Table] = []
    heading = ""
    at = 0
    while at < len(lines):
        if "|" in lines[at] and at + 1 < len(lines) and "|" in lines[at + 1] and _RULER.fullmatch(lines[at + 1]):
            table = _table(heading, lines, at, name)
            found.append(table)
            at += 2 + len(table.rows)
        else:
            heading = lines[at].strip() or heading
            at += 1
    return found


def blocks(text: str) -> list[Block]:
    """All code blocks between lines of three backticks; one that is never closed is none."""
    found: list[Block] = []
    heading = intro = ""
    start: int | None = None
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if line.strip() == "```":
            if start is not None:
                body = "".join(f"{inner}\n" for inner in lines[start + 1 : at])
                found.append(Block(heading, intro.strip(), start + 2, body))
                intro = ""
            start = at if start is None else None
        elif start is None and line.startswith("#"):
            heading, intro = line.strip("# \t\r"), ""
        elif start is None:
            intro += f" {line.strip()}"
    return found


def figure(cell: str, name: str, line: int) -> float | None:
    """A cell's images per second; None where it says 0 or nothing, which is how the documents say "not measured".

    Raises:
        DocumentError: the cell holds something else.
    """
    if not cell:
        return None
    if not _FIGURE.fullmatch(cell):
        raise DocumentError(f"{name}, line {line}: {cell[:40]!r} is not a figure. Give images/s, as 1612 or 789.51")
    return float(cell) or None


def count(cell: str, name: str, line: int) -> int:
    """A cell's whole number from 1: nodes, GPUs, a test's number; anything else is a DocumentError."""
    if not re.fullmatch(r"[1-9][0-9]{0,5}", cell):
        raise DocumentError(f"{name}, line {line}: {cell[:40]!r} is not a count. Give a whole number from 1")
    return int(cell)


def _table(heading: str, lines: list[str], at: int, name: str) -> Table:
    header = Row(at + 1, _cells(lines[at]))
    rows = []
    for number, line in enumerate(lines[at + 2 :], start=at + 3):
        if not line.strip():
            break
        row = Row(number, _cells(line))
        if len(row.cells) != len(header.cells):
            raise DocumentError(
                f"{name}, line {number}: {len(row.cells)} cells under {len(header.cells)} columns "
                f"(line {header.line}). Mend the row, or end the table with an empty line"
            )
        rows.append(row)
    return Table(heading, header, tuple(rows))


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|"))
