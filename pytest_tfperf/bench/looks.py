"""When the canaries are looked at in a session."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from pytest_tfperf.core.canary import Canaries

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
        self.seen: list[Canaries] = []
        self._last_seconds = -math.inf
        self._blind = False

    def lately(self) -> None:
        """Look, unless that was done a moment ago."""
        if time.monotonic() - self._last_seconds >= AGAIN_AFTER_SECONDS:
            self._once()

    def until_they_decide(self) -> None:
        """Look as often as is missing, half a minute in all; not where the machine can't tell."""
        while not self.decide:
            self._once()

    @property
    def decide(self) -> bool:
        """Whether a verdict may rest on them: there are enough, or there will be no more."""
        return len(self.seen) >= LOOKS_THAT_DECIDE or self._blind

    def _once(self) -> None:
        """Where the machine can't tell once, it is not asked again: each try may take a minute."""
        if self._blind:
            return
        if (seen := self._look()) is None:
            self._blind = True
        else:
            self.seen.append(seen)
        self._last_seconds = time.monotonic()
