"""Times a counter of steps by when its lines come."""

from __future__ import annotations

import math

from pytest_tfperf.programs.reading import Unreadable, shown

_ONE_STEP = 1.5  # an increment up to here is no jump; it may be a fraction of an epoch
_LEAST_SWEEPS = 3
_LEAST_SECONDS = 1.0  # of an epoch: a busy machine makes shorter ones any multiple faster or slower
# Evaluation has no backward pass. On a busy machine an epoch may be slower than its neighbours, hardly twice as fast.
_ONE_SPEED, _TWO_SPEEDS = math.log(1.05), math.log(2)


class Counter:
    """Steps and seconds between lines that are alike.

    The last line of an epoch may be another: a counter that goes by many steps can jump to its total, without the time
    of these steps, or after an evaluation. So they are held back until the counter goes on. A single step is no jump.
    """

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None  # step and time of the last line
        self._held = (0.0, 0.0)
        self._jumps = False
        self._sweep = (0.0, 0.0)  # steps and seconds since the counter began anew
        self._speeds: list[float] = []  # of the last sweeps
        self._lasted: list[float] = []

    def take(self, now: float, step: float, line: str, *, is_of_training: bool = False) -> tuple[float, float] | None:
        """The steps and seconds that are known now; None for a line that is printed again, or begins anew.

        Args:
            now: when the line came, in seconds.
            step: as the line counts it.
            line: for the message.
            is_of_training: it is none of evaluation, so that it may run at any speed.

        Raises:
            Unreadable: it runs at two speeds in turn.
        """
        before = self._before
        if before is not None and step == before[0]:
            return None
        self._before = (step, now)
        if before is None:
            return 0.0, 0.0
        if step < before[0]:  # as in each of Keras' epochs
            self._held, self._jumps = (0.0, 0.0), False
            if not is_of_training:
                self._require_one_speed(line)
            return None
        held, since = self._held, (step - before[0], now - before[1])
        self._jumps |= since[0] > _ONE_STEP
        steps, seconds = held if self._jumps else since
        self._held = since if self._jumps else (0.0, 0.0)
        self._sweep = (self._sweep[0] + steps, self._sweep[1] + seconds)
        return steps, seconds

    def _require_one_speed(self, line: str) -> None:
        """Refuse a counter of training and evaluation, which nothing tells apart but their speeds."""
        (steps, seconds), self._sweep = self._sweep, (0.0, 0.0)
        if steps <= 0 or seconds <= 0:
            return
        self._speeds = [*self._speeds[1 - _LEAST_SWEEPS :], steps / seconds]
        self._lasted = [*self._lasted[1 - _LEAST_SWEEPS :], seconds]
        if len(self._speeds) < _LEAST_SWEEPS or min(self._lasted[0], self._lasted[-1]) < _LEAST_SECONDS:
            return
        first, second, third = map(math.log, self._speeds)
        if abs(first - third) < _ONE_SPEED and second - max(first, third) > _TWO_SPEEDS:
            speeds = " and ".join(f"{speed:.4g}" for speed in self._speeds[:2])
            raise Unreadable(
                f"its counter runs at {speeds} steps/s in turn, before {shown(line)!r}: one seems to be of evaluation",
                "let each bar or line say of what it is, as tqdm(desc='Validation') does, or give reads="
                "Reads(pattern=...) that finds those of training",
            )
