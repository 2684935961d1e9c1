"""Cuts what a program writes into lines."""

from __future__ import annotations

import re

MOST_OF_A_LINE = 2**16
"""Characters of a line that are read; the rest is dropped, so that a program without line ends takes no memory."""

_COLOURS = re.compile(r"\x1b\[[0-?]{0,40}[ -/]{0,9}[@-~]")
_LINE_ENDS = re.compile(rb"[\n\r\x08]+")


class LineSplitter:
    """Cuts what a program writes into lines, at the line ends and where it writes over the same line again.

    It holds no more than one line, and of that no more than `MOST_OF_A_LINE`.
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that end in `data`, without colours."""
        *ended, rest = _LINE_ENDS.split(data)
        if not ended:
            self._rest = (self._rest + rest[:MOST_OF_A_LINE])[:MOST_OF_A_LINE]
            return []
        ended[0] = self._rest + ended[0]
        self._rest = rest[:MOST_OF_A_LINE]
        return [_text(line) for line in ended if line]

    @property
    def unfinished(self) -> str:
        """The line that has no end yet."""
        return _text(self._rest)


def _text(line: bytes) -> str:
    return _COLOURS.sub("", line[:MOST_OF_A_LINE].decode("utf-8", errors="replace"))
