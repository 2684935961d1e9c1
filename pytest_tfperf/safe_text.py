"""Texts that may be shown: without the passwords of URLs, without what a terminal obeys, and not too long."""

from __future__ import annotations

import re
from typing import Final

_HIDDEN: Final = "***"
_MOST: Final = 200  # characters of a value that a message repeats
_MOST_OF_A_LINE: Final = 2000  # characters of one line of an error
_GAP: Final = " ... "

# After "scheme://user:" comes a password or a port. A password ends at the last "@" of its word, or, with
# spaces in it, before a table's gap, a quote that ends a JSON string, or the line's end. `Path` leaves one slash.
_LOGIN: Final = re.compile(
    r"""(?P<before>:/(?P<slash>/*)[^\s:/"\[]*:)"""
    r"""(?!\d{1,5}(?:[/?\#][^\s@]*)?(?:["'\s,;)]|$))"""
    r"""(?P<rest>(?:\\.|"(?![\s,:\]}]|$)|[^\s"]|\ (?!\ ))+)""",
    re.MULTILINE | re.VERBOSE,
)
_PARAMETER: Final = re.compile(r"""([?&](?:ssl)?password=)[^\s&"']+""", re.IGNORECASE)

# All control characters but the line's end and the tab, and what turns the direction of writing.
_OBEYED: Final = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|\r(?!\n)"
)
_BREAKS: Final = re.compile(r"[\t\r\n]")


def without_passwords(text: str) -> str:
    """The text with the password of each URL as `***`; users, hosts and ports stay.

    >>> without_passwords("no such file: postgresql://ann:secret@db:5432/d?sslmode=require")
    'no such file: postgresql://ann:***@db:5432/d?sslmode=require'
    """
    if ":/" in text:
        text = _LOGIN.sub(_without_password, text)
    return _PARAMETER.sub(rf"\1{_HIDDEN}", text) if "assword=" in text.lower() else text


def printable(text: str) -> str:
    r"""The text as a terminal may get it: passwords hidden, and control characters as `\x1b`; lines and tabs stay."""
    return without_passwords(_OBEYED.sub(_escaped, text))


def one_line(text: str) -> str:
    r"""`printable` for a table's cell: line ends and tabs are `\n` and `\t`, too."""
    return printable(_BREAKS.sub(_escaped, text))


def shortened(value: object, most: int = _MOST) -> str:
    """A value that a message repeats: without passwords, and without its middle where it is longer than `most`."""
    text = without_passwords(str(value))
    if len(text) <= most:
        return text
    head = (most - len(_GAP)) * 2 // 3
    return f"{text[:head]}{_GAP}{text[head + len(_GAP) - most :]}"


def short_lines(text: str) -> str:
    """An error with each line shortened, whatever it repeats; the next step at a line's end stays."""
    return "\n".join(shortened(line, _MOST_OF_A_LINE) for line in text.split("\n"))


def _escaped(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]


def _without_password(found: re.Match[str]) -> str:
    word, space, more = found["rest"].partition(" ")
    if "@" not in word and "@" in more:  # a password with a space
        word, space, more = found["rest"], "", ""
    _, at, host = word.rpartition("@")
    is_login = at or found["slash"] or found.string.endswith(("postgres", "postgresql"), 0, found.start())
    if not is_login:  # a path after a name, as in "data:/data:ro"
        return found[0]
    # Without "@" it was cut off.
    return f"{found['before']}{_HIDDEN}{at}{host if at else ''}{space}{without_passwords(more)}"
