"""Tables and code blocks of a Markdown page, and the figures in a table's cells."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_tfperf.errors import DocumentError

_RULER = re.compile(r"[\s|:-]*-[\s|:-]*")
_FIGURE = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class Table:
    """A pipe table: the last text above it, the names of its columns, and its rows' cells."""

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced code block: the heading of its section, the text between the two, and the code byte for byte."""

    heading: str
    intro: str
    code: str


def tables(page: str, name: str) -> list[Table]:
    """All tables of a page; a row with more or fewer cells than columns is a DocumentError."""
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
                    raise DocumentError(f"{name}: {row!r} has {len(rows[-1])} cells under {len(columns)} columns")
            found.append(Table(heading, columns, tuple(rows)))
        elif "|" not in line:
            heading = line.strip() or heading
        previous = line
    return found


def blocks(page: str) -> list[Block]:
    """All code blocks between lines of three backticks."""
    sections = re.split(r"^#+ (.*)\n", page, flags=re.MULTILINE)[1:]
    found = []
    for heading, text in zip(sections[::2], sections[1::2], strict=True):
        intro, *fenced = re.split(r"^```\n", text, flags=re.MULTILINE)
        found += [Block(heading, intro.strip(), code) for code in fenced[:1]]
    return found


def figure(cell: str, name: str) -> float | None:
    """A cell's images per second; None where it is 0 or empty, which is how the documents write "not measured".

    Raises:
        DocumentError: the cell holds something else.
    """
    if cell and not _FIGURE.fullmatch(cell):
        raise DocumentError(f"{name}: {cell!r} is not a figure. Give images/s, as 1612 or 789.51")
    return float(cell or 0) or None


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|"))
