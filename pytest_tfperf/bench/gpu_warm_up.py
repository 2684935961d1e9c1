"""Brings GPUs to a steady temperature before the first timed run: a cold GPU has higher clocks, and becomes slower."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

STEADY_SECONDS = 10.0
"""GPUs are warm if the temperature of none rose for so long by more than `STEADY_CELSIUS`."""

STEADY_CELSIUS = 1

MOST_SECONDS = 90.0
"""A large GPU takes about a minute; whatever it does then, the session goes on."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """How GPUs were warmed up.

    Args:
        seconds: how long they worked.
        before, after: the temperature of the warmest, in degrees Celsius.
        is_steady: False if they were still getting warmer after `MOST_SECONDS`.
    """

    seconds: float
    before: int
    after: int
    is_steady: bool


Temperatures = Callable[[], Sequence[int] | None]
"""Of each GPU now, in degrees Celsius; empty if the driver does not tell, None if it was not read yet."""


class GpuWarmUp:
    """Warms up each GPU once in a session: the warm-up of its first run goes on until it is warm.

    Args:
        most_seconds: when to go on although the GPUs get warmer; 0 to warm up none.
        clock: seconds, for tests.

    Attributes:
        done: how GPUs were warmed up, in order.
    """

    def __init__(self, *, most_seconds: float = MOST_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_seconds = most_seconds
        self._clock = clock
        self._warm: set[str] = set()
        self.done: list[Warmed] = []

    def of(self, uuids: Sequence[str], temperatures: Temperatures, phase: Callable[[str], None]) -> Callable[[], bool]:
        """What tells, after each window of a run's warm-up, whether its GPUs are warm.

        Args:
            uuids: of the GPUs; none on CPUs.
            temperatures: reads them.
            phase: is told the temperature.
        """
        if self._most_seconds == 0 or self._warm.issuperset(uuids):
            return lambda: True
        started, seen = self._clock(), list[tuple[float, Sequence[int]]]()

        def is_warm() -> bool:
            now, seconds = temperatures(), self._clock() - started
            if now:
                seen.append((seconds, now))
                phase(f"GPU warm-up, {max(now)} C")
            is_steady = _is_steady(seen)
            if not is_steady and now != [] and seconds < self._most_seconds:
                return False
            self._warm.update(uuids)
            if seen:
                self.done.append(Warmed(seconds, max(seen[0][1]), max(seen[-1][1]), is_steady))
            return True

        return is_warm


def _is_steady(seen: Sequence[tuple[float, Sequence[int]]]) -> bool:
    """Whether no GPU became warmer over the last `STEADY_SECONDS`."""
    if not seen:
        return False
    end, now = seen[-1]
    earlier = [temperatures for at, temperatures in seen if at <= end - STEADY_SECONDS]
    if not earlier:
        return False
    return all(b - a <= STEADY_CELSIUS for a, b in zip(earlier[-1], now, strict=True))
