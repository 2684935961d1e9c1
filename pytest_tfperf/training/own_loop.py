"""A training that a user brings as an object: anything that can take a number of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import tensorflow as tf

from pytest_tfperf.core.baseline import is_unit
from pytest_tfperf.errors import WorkloadError


class OwnTraining(Protocol):
    """What a user's function returns for `trainer="own"`; it is called with the batch size and the devices' names.

    It may also have `unit`, the word for what is counted ("examples" if it has none).
    """

    examples_per_step: int
    """What a step adds to the throughput, over all devices."""

    def run(self, steps: int) -> float | None:
        """Take `steps` steps and return when they are done; the loss, if there is one. The first call may compile."""


class OwnLoop:
    """Windows of a user's own training; meets `Loop`.

    Args:
        own: an `OwnTraining`.
        devices: what it was built for.

    Raises:
        WorkloadError: it is no `OwnTraining`; says what is missing.
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
        for device in self._devices:
            with tf.device(device):
                tf.raw_ops.SyncDevice()
        return None if loss is None else float(loss)
