"""The lines of a report or of an error, as values, and how a terminal shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from textwrap import wrap
from typing import Final

from pytest_tfperf.safe_text import printable

_TEXT_COLUMN: Final = 14  # in which the texts beside labels begin
_HANGING: Final = 4
_LEAST: Final = 40  # a narrower terminal breaks the lines itself
_UNBROKEN: Final = "\u00a0"


class LineKind(Enum):
    """What a line holds, which decides how it is shown."""

    TEXT = auto()
    COMMAND = auto()  # to be copied: it is never wrapped
    LOG = auto()  # of a log or of a program's output: after a bar, and never wrapped


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    Args:
        text: what it says; blanks at its beginning are its indent.
        label: what it is about, in a column before the text; None for a line without such a column.
        kind: how it is shown.
        note: a remark in brackets behind a command.
    """

    text: str
    label: str | None = None
    kind: LineKind = LineKind.TEXT
    note: str = ""

    def __str__(self) -> str:
        note = f"    ({self.note})" if self.note else ""
        if self.kind is LineKind.LOG:
            return f"  | {self.text}"
        return f"{'' if self.label is None else f'  {self.label:<{_TEXT_COLUMN - 3}} '}{self.text}{note}"


def command(label: str, text: str, note: str = "") -> Line:
    """A line with a command to copy."""
    return Line(text, label, LineKind.COMMAND, note)


def lines_of(*texts: Line | str) -> Iterator[Line]:
    """The lines as they are, and those of texts that were written whole, such as the message of an exception."""
    for text in texts:
        yield from (text,) if isinstance(text, Line) else map(Line, text.split("\n"))


def plain(lines: Iterable[Line]) -> str:
    """The lines as a text, as wide as they are."""
    return "\n".join(map(str, lines))


def rendered(lines: Iterable[Line | str], width: int | None, *, before: int = 0) -> list[str]:
    """The lines as a terminal may get them, each of at most `width` characters; None for no limit.

    Texts stay beside their labels. Commands and lines of a log are not wrapped, so that they can be copied. `before`
    is the length of what stands before the first line already.
    """
    safe = [replace(one, text=printable(one.text), note=printable(one.note)) for one in lines_of(*lines)]
    if width is None or width < _LEAST:
        return [str(line) for line in safe]
    return [part for number, line in enumerate(safe) for part in _wrapped(line, width, 0 if number else before)]


def _wrapped(line: Line, width: int, before: int) -> list[str]:
    whole = str(line)
    if before + len(whole) <= width or line.kind is LineKind.LOG:
        return [whole]
    if line.kind is LineKind.COMMAND:
        return [str(replace(line, note="")), *([f"{' ' * _TEXT_COLUMN}({line.note})"] if line.note else [])]
    first, *others = wrap(
        re.sub(r"(?<=\d) (?=%)", _UNBROKEN, whole),  # "5 %" is one word
        width,
        initial_indent="." * before,
        subsequent_indent=" " * (_TEXT_COLUMN if line.label else len(whole) - len(whole.lstrip()) + _HANGING),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace(_UNBROKEN, " ") for part in (first[before:], *others)]
