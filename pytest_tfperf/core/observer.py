"""Who is told how a measurement goes, and who may end it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from pytest_tfperf.core.plan import Plan
from pytest_tfperf.core.run import Run

WINDOW_SECONDS: Final = 0.15
"""How long a window is timed: much longer than the overhead of a call, shorter than most disturbances."""

Enough = Callable[[Run], bool]
"""Called every ten windows with the run so far; returns whether it may stop."""


class Observer(Protocol):
    """Gets the progress of a measurement."""

    def begin(self, label: str) -> None:
        """A run of this kind begins: "run", "reference environment", "on device data", ..."""

    def phase(self, name: str) -> None:
        """A phase of the worker begins: "start", "model", ..., "warm-up", "steps"."""

    def window(self, run: Run, plan: Plan) -> None:
        """A timed window has ended; `run` holds all windows so far."""

    def ended(self, run: Run) -> None:
        """The last window has ended; in `run`, windows before the steady state count as warm-up."""

    def disturbed(self, fact: str) -> None:
        """Something disturbed the run that has ended."""

    def done(self) -> None:
        """The worker has ended, whether or not it finished."""
