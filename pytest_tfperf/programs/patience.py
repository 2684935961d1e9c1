"""Decides when to give up on a program whose lines say nothing."""

from __future__ import annotations

from collections.abc import Callable

NOTICE_LINES = 20
NOTICE_SECONDS = 10.0
"""After so many lines, or so many seconds with lines, the user is told that none of them could be read."""

ENDS_SECONDS = 30.0
"""So much later the program is ended, if lines still come."""

_LEAST_BURSTS = 5  # a long start may print its settings at once, and compile for minutes
_BUFFER = 4096
_SILENCE = 2.0


class Patience:
    """Decides when to give up on a program's lines.

    Args:
        now: when the program was started, in seconds.
        first_within: seconds from the first line in which a reading is expected; None: `ENDS_SECONDS` after the notice.
        phase: called with what the user is told.
    """

    def __init__(self, now: float, first_within: float | None, phase: Callable[[str], None]) -> None:
        self._printed_at = now
        self._first_within = first_within
        self._phase = phase
        self._first_at: float | None = None
        self._noticed_at: float | None = None
        self._bursts = 0
        self._is_buffered = False

    def is_over(self, now: float, size: int, lines: int, *, has_read: bool) -> bool:
        """Whether to end the program, which has just printed `size` bytes, in all `lines` lines."""
        since, self._printed_at = now - self._printed_at, now
        self._is_buffered |= since > _SILENCE and size >= _BUFFER
        if has_read or lines == 0:
            return False
        if self._first_at is None:
            self._first_at = now
        if self._noticed_at is None and (lines >= NOTICE_LINES or now - self._first_at >= NOTICE_SECONDS):
            self._noticed_at = now
            self._phase(f"none of {lines} lines can be read yet")
        self._bursts += self._noticed_at is not None and since >= 0.5
        if self._first_within is not None:
            return now - self._first_at > self._first_within
        waited_enough = self._noticed_at is not None and now - self._noticed_at >= ENDS_SECONDS
        return waited_enough and self._bursts >= _LEAST_BURSTS

    def waited(self, now: float) -> float:
        """Seconds since the first line."""
        return 0.0 if self._first_at is None else now - self._first_at

    @property
    def buffering(self) -> str:
        """A further next step for a program that prints much at once after a silence; else ""."""
        if not self._is_buffered:
            return ""
        return "; its output seems to be buffered: start it by `stdbuf -oL`, or set PYTHONUNBUFFERED=1"
