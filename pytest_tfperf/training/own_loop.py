"""A training that a user brings as an object: anything that can take a number of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_tfperf.core.baseline import is_unit
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.loop import sync_devices


class OwnLoop:
    """Windows of a user's own training; meets `Loop`.

    Args:
        own: what the user's function returned. It has `run(steps)`, which takes that many steps, waits for them and
            returns the loss or None, and `examples_per_step` over all devices. It may have `unit`, the word for what
            is counted.
        devices: what it was built for.

    Raises:
        WorkloadError: `own` lacks one of these, or its value is of the wrong kind.
    """

    fetch: Callable[[], Any] | None = None

    def __init__(self, own: Any, devices: list[str]) -> None:
        examples = getattr(own, "examples_per_step", None)
        if not callable(getattr(own, "run", None)) or type(examples) is not int or examples < 1:
            found = type(own).__name__ + ("" if examples is None else f" with examples_per_step={examples!r}")
            raise WorkloadError(
                f"it returned {found}; trainer='own' needs an object with a method run(steps) and an attribute "
                "examples_per_step, a whole number above 0"
            )
        self.examples_per_step: int = examples
        self.unit = getattr(own, "unit", "examples")
        if not is_unit(self.unit):
            raise WorkloadError(f"unit={self.unit!r}: write the word for what is counted, as in 'tokens' for tokens/s")
        self.replicas = len(devices)
        self._own = own
        self._devices = devices

    def run(self, steps: int) -> float | None:
        """Have it take `steps` steps; returns its loss, when every device has done what it was given."""
        loss = self._own.run(steps)
        sync_devices(self._devices)
        return None if loss is None else float(loss)
