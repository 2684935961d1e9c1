"""When the canaries are looked at in a session."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from pytest_tfperf.canary import Canaries

AGAIN_AFTER_SECONDS = 30.0
"""A look costs about 1.5 s: 5 % of the time."""

LOOKS_THAT_DECIDE = 20
"""Where a verdict on the whole session rests on them; one look is worth little on a shared machine."""


class Looks:
    """The session's looks at its canaries.

    Args:
        look: `hardware.canaries.look`.
    """

    def __init__(self, look: Callable[[], Canaries | None]) -> None:
        self._look = look
        self._seen: list[Canaries] = []
        self._last_seconds = -math.inf
        self._blind = False

    def lately(self) -> None:
        """Look, unless that was done a moment ago."""
        if time.monotonic() - self._last_seconds >= AGAIN_AFTER_SECONDS:
            self._once()

    def tonight(self, *, at_least: int = 0) -> list[Canaries]:
        """All looks so far, after as many more as it takes to have `at_least`; fewer where the machine can't tell."""
        while len(self._seen) < at_least and not self._blind:
            self._once()
        return list(self._seen)

    def _once(self) -> None:
        """Where the machine can't tell once, it is not asked again: each try may take a minute."""
        if self._blind:
            return
        if (seen := self._look()) is None:
            self._blind = True
        else:
            self._seen.append(seen)
        self._last_seconds = time.monotonic()
