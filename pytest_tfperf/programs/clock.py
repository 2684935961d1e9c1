"""Compares the rates and times that lines state with when they come."""

from __future__ import annotations

from pytest_tfperf.programs.reading import Unreadable, shown
from pytest_tfperf.programs.step_order import step_in

_MOST_KEPT = 1000
_LEAST_TIMES = 5
_MOST_OVER_THE_CLOCK = 1.25  # times are rounded, and lines are read a little late
_LATE_SECONDS = 1.0


class Clock:
    """What the time between lines says of the rates in them.

    Args:
        least_seconds: lines that come closer may have been printed together.

    Attributes:
        units_per_step: what a rate and the time between its steps make of a step, where lines name steps.
    """

    def __init__(self, least_seconds: float) -> None:
        self._least_seconds = least_seconds
        self._begun: tuple[float, int] | None = None  # time and step of the line that the next one is compared with
        self._first: tuple[float, str] | None = None
        self._step: int | None = None
        self._times, self._stated = 0, 0.0
        self.units_per_step: list[float] = []

    def compare_rate(self, now: float, rate: float, line: str) -> None:
        """Note what a rate makes of a step."""
        step = step_in(line)
        if step is None or len(self.units_per_step) >= _MOST_KEPT:
            return
        if self._begun is None or step < self._begun[1]:
            self._begun = (now, step)
        seconds, steps = now - self._begun[0], step - self._begun[1]
        if steps > 0 and seconds >= self._least_seconds:
            self._begun = (now, step)
            self.units_per_step.append(rate * seconds / steps)

    def require_time(self, now: float, seconds: float, line: str) -> None:
        """Add the time of a step. A line stands for the steps since the one before, or for one if it names none.

        Raises:
            Unreadable: such times add up to more than has passed since the first lines.
        """
        before, self._step = self._step, step_in(line)
        steps = 1 if before is None or self._step is None else max(1, self._step - before)
        if self._first is None:
            self._first = (now, line)
        since = now - self._first[0]
        if since <= self._least_seconds:
            return
        self._times += 1
        self._stated += seconds * steps
        if self._times >= _LEAST_TIMES and self._stated > _MOST_OVER_THE_CLOCK * since + _LATE_SECONDS:
            raise Unreadable(
                f"the times of its steps add up to {self._stated:.1f} s, and only {since:.1f} s have passed from "
                f"{shown(self._first[1])!r} to {shown(line)!r}",
                "it may be the time since the start, or of many steps: read the counter beside it, as by "
                r"reads=Reads(pattern=r'step (?P<step>\d+)', examples_per_step=N); if several processes print, let one "
                "print the rate of all",
            )
