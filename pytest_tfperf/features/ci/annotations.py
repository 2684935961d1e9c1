"""GitHub Actions' workflow commands, which put a message beside a test's source line."""

from __future__ import annotations

_IN_TEXT = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTIES = _IN_TEXT | str.maketrans({":": "%3A", ",": "%2C"})


def annotation(level: str, text: str, *, title: str, file: str = "", line: int = 0) -> str:
    """One workflow command, escaped as GitHub's toolkit does it (actions/toolkit, packages/core/src/command.ts).

    Args:
        level: "error", "warning" or "notice".
        text: the message; it may have several lines.
        title: the heading above it.
        file: path from the repository's root, "" if unknown.
        line: in the file, from 1; 0 if unknown.

    >>> annotation("error", "13.0 % slower", title="REGRESSED: a", file="test_a.py", line=3)
    '::error file=test_a.py,line=3,title=REGRESSED%3A a::13.0 %25 slower'
    """
    given = {"file": file, "line": str(line) if file and line else "", "title": title}
    properties = ",".join(f"{name}={value.translate(_IN_PROPERTIES)}" for name, value in given.items() if value)
    return f"::{level} {properties}::{text.translate(_IN_TEXT)}"
