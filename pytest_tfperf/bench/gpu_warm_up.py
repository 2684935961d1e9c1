"""Brings GPUs to a steady temperature before the first timed run: a cold GPU has higher clocks, and becomes slower.

A worker's warm-up goes on until its GPUs are warm. A program does not wait, and may end before that; so its first run
is thrown away if the GPUs were cold, and taken again. That has never run on a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

STEADY_SECONDS = 10.0
"""GPUs are warm if no temperature rose by more than `STEADY_CELSIUS` during this time."""

STEADY_CELSIUS = 1

MOST_SECONDS = 90.0
"""A large GPU takes about a minute; after this time the session goes on in any case."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """How GPUs were warmed up.

    Args:
        seconds: how long they worked.
        before, after: the temperature of the warmest GPU, in degrees Celsius.
        is_steady: False if they were still getting warmer after `MOST_SECONDS`.
    """

    seconds: float
    before: int
    after: int
    is_steady: bool


Temperatures = Callable[[], Sequence[int] | None]
"""Returns each GPU's temperature in degrees Celsius; empty if the driver gives none, None if it was not read yet."""


class GpuWarmUp:
    """Warms up each GPU once in a session, before or by its first run.

    Args:
        most_seconds: when to go on although the GPUs still get warmer; 0 for no warm-up.
        clock: seconds, for tests.

    Attributes:
        done: how GPUs were warmed up, in order.
    """

    def __init__(self, *, most_seconds: float = MOST_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_seconds = most_seconds
        self._clock = clock
        self._warm: set[str] = set()
        self._cold_runs: dict[tuple[str, ...], Warmed] = {}
        self.done: list[Warmed] = []

    def of(self, uuids: Sequence[str], temperatures: Temperatures, phase: Callable[[str], None]) -> Callable[[], bool]:
        """Return a function to call after each window of a run's warm-up, which tells whether the run's GPUs are warm.

        Args:
            uuids: of the GPUs; none on CPUs.
            temperatures: reads the GPUs' temperatures.
            phase: called with a text that gives the temperature.
        """
        if self._most_seconds == 0 or self._warm.issuperset(uuids):
            return lambda: True
        started, readings = self._clock(), list[tuple[float, Sequence[int]]]()

        def is_warm() -> bool:
            now, seconds = temperatures(), self._clock() - started
            if now:
                readings.append((seconds, now))
                phase(f"GPU warm-up, {max(now)} C")
            is_steady = _is_steady(readings)
            if not is_steady and now != [] and seconds < self._most_seconds:
                return False
            self._warm.update(uuids)
            if readings:
                self.done.append(Warmed(seconds, max(readings[0][1]), max(readings[-1][1]), is_steady))
            return True

        return is_warm

    def was_cold(self, uuids: Sequence[str], celsius: Sequence[int], seconds: float) -> bool:
        """Return whether the GPUs were cold in a program's run, so that later runs will be slower than this one.

        They are warm if the run has ended no warmer than the one before it, which each later run will then do, too: a
        GPU cools down while a program starts. A run of `most_seconds` counts in any case. So this costs no more time
        than the warm-up of a worker, and mostly one run in a session.

        Args:
            uuids: of the GPUs.
            celsius: the warmest GPU's temperature in each second that was timed; empty if no driver gives it.
            seconds: how long the run took with its start.
        """
        if self._most_seconds == 0 or not celsius or self._warm.issuperset(uuids):
            return False
        before = self._cold_runs.get(tuple(uuids), Warmed(0.0, celsius[0], celsius[0], is_steady=False))
        is_steady = celsius[-1] - before.after <= STEADY_CELSIUS
        if not is_steady and before.seconds + seconds < self._most_seconds:
            self._cold_runs[tuple(uuids)] = replace(before, seconds=before.seconds + seconds, after=celsius[-1])
            return True
        self._warm.update(uuids)
        if before.seconds:
            self.done.append(replace(before, is_steady=is_steady))
        return False


def _is_steady(readings: Sequence[tuple[float, Sequence[int]]]) -> bool:
    """Whether no GPU became warmer over the last `STEADY_SECONDS`."""
    if not readings:
        return False
    end, now = readings[-1]
    earlier = [temperatures for at, temperatures in readings if at <= end - STEADY_SECONDS]
    if not earlier:
        return False
    return all(b - a <= STEADY_CELSIUS for a, b in zip(earlier[-1], now, strict=True))
