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


class GpuWarmUp:
    """Warms up each set of GPUs once, with the work of its first run.

    Args:
        temperatures: returns the temperature of each GPU, in degrees Celsius; empty if the driver does not tell.
        most_seconds: when to go on although the GPUs get warmer.
        clock: seconds, for tests.

    Attributes:
        done: how each set was warmed up, in order.
    """

    def __init__(
        self,
        temperatures: Callable[[Sequence[str]], Sequence[int]],
        *,
        most_seconds: float = MOST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._temperatures = temperatures
        self._most_seconds = most_seconds
        self._clock = clock
        self._warm: set[str] = set()
        self.done: list[Warmed] = []

    def wants(self, uuids: Sequence[str]) -> bool:
        """Whether one of these GPUs has not been warmed up yet."""
        return self._most_seconds > 0 and not self._warm.issuperset(uuids)

    def warm_up(self, uuids: Sequence[str], work: Callable[[], object], phase: Callable[[str], None]) -> None:
        """Let these GPUs work until they are warm; at once if nobody knows their temperature.

        Args:
            uuids: of the GPUs.
            work: occupies all of them for a moment, such as a window of steps.
            phase: is told the temperature.
        """
        self._warm.update(uuids)
        if not (now := self._temperatures(uuids)):
            return
        started, before = self._clock(), max(now)
        seen = [(started, now)]
        while True:
            phase(f"GPU warm-up, {max(now)} C")
            work()
            now, at = self._temperatures(uuids) or now, self._clock()
            seen.append((at, now))
            is_steady = _is_steady(seen)
            if is_steady or at - started >= self._most_seconds:
                break
        self.done.append(Warmed(at - started, before, max(now), is_steady))


def _is_steady(seen: Sequence[tuple[float, Sequence[int]]]) -> bool:
    """Whether no GPU became warmer over the last `STEADY_SECONDS`."""
    end, now = seen[-1]
    earlier = [temperatures for at, temperatures in seen if at <= end - STEADY_SECONDS]
    if not earlier:
        return False
    return all(b - a <= STEADY_CELSIUS for a, b in zip(earlier[-1], now, strict=True))
