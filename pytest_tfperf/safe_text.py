"""Texts that may be shown: without the passwords of URLs, without what a terminal obeys, and not too long."""

from __future__ import annotations

import re
from typing import Final, TypeVar

_HIDDEN: Final = "***"
_MOST: Final = 200  # characters of a value that a message repeats
_MOST_OF_A_LINE: Final = 2000  # characters of one line of an error
_GAP: Final = " ... "

# After "scheme://user:" comes a password or a port. A word ends at white space, or at the quote that ends a JSON
# string; a password with spaces goes on to the next "@". `Path` leaves one slash of "://". A shared history may hold
# any text, so nothing here may take quadratic time.
_LOGIN: Final = re.compile(
    r"""(?P<before>:/(?P<slash>/*)[^\s:/"\[]*:)"""
    r"""(?P<word>(?:\\.|"(?![\s,:\]}]|$)|[^\s"])+)"""
    r"""(?P<more>(?:[ ][^\s"@]+){1,8}@[^\s"]*)?""",
    re.MULTILINE,
)
_PORT: Final = re.compile(r"\d{1,5}(?!\w)")
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
    before, word, more = found["before"], found["word"], found["more"] or ""
    _, at, host = word.rpartition("@")
    if at:
        return f"{before}{_HIDDEN}@{host}{without_passwords(more)}"
    is_url = found["slash"] or found.string.endswith(("postgres", "postgresql"), 0, found.start())
    if not is_url or _PORT.match(word):  # not of a URL: a path after a name, as in "data:/data:ro"
        return f"{before}{word}{without_passwords(more)}"
    return f"{before}{_HIDDEN}{more[more.rfind('@') :]}" if more else f"{before}{_HIDDEN}"  # the latter was cut off


_T = TypeVar("_T")

_BEGIN_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_cell(value: _T) -> _T | str:
    """A text as a spreadsheet only shows it: after a quote where it would be a formula. A number stays as it is.

    >>> csv_cell("=cmd|'/c calc'!A1"), csv_cell("-1.5"), csv_cell(-1.5)
    ("'=cmd|'/c calc'!A1", '-1.5', -1.5)
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if value.startswith(_BEGIN_FORMULA) and not _is_number(value) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip() == text
