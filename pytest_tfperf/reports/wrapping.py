"""Messages wrapped at the terminal's width."""

from __future__ import annotations

import re
from textwrap import wrap

TEXT_COLUMN = 14
"""The column in which the texts beside a message's labels begin."""

_COMMANDS = ("record", "rerun", "accept")
"""The labels of lines that hold a command to copy."""

_LOG_LINE = "  | "
_HANGING = 4
_LEAST = 40  # a narrower terminal breaks the lines itself
_UNBROKEN = "\u00a0"


def wrapped(text: str, width: int | None) -> str:
    """The text in lines of at most `width` characters; None for no limit.

    Texts stay beside their labels. Commands and lines of a log are not wrapped, so that they can be copied.
    """
    if width is None or width < _LEAST:
        return text
    return "\n".join(part for line in text.split("\n") for part in _wrapped_line(line, width))


def first_sentence(text: str) -> str:
    """The text before the first full stop, or the first line."""
    return text.partition("\n")[0].partition(". ")[0].removesuffix(".")


def _wrapped_line(line: str, width: int) -> list[str]:
    label, indent = _label(line), len(line) - len(line.lstrip())
    if len(line) <= width or line.startswith(_LOG_LINE):
        return [line]
    if label in _COMMANDS:
        command, comment, text = line.partition("    (")
        return [command, " " * TEXT_COLUMN + comment.strip() + text] if comment else [line]
    hanging = TEXT_COLUMN if label else indent + _HANGING
    parts = wrap(
        re.sub(r"(?<=\d) (?=%)", _UNBROKEN, line),  # "5 %" is one word
        width,
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace(_UNBROKEN, " ") for part in parts]


def _label(line: str) -> str:
    """The label of a message's line; "" without one."""
    starts = line[:2].isspace() and not line[2:3].isspace()
    is_labelled = starts and line[TEXT_COLUMN - 1 : TEXT_COLUMN] == " " and line[TEXT_COLUMN:].strip()
    return line[:TEXT_COLUMN].strip() if is_labelled else ""
