"""How workers start: a `Launcher` turns a `Job` into a `TrainingRun` that runs windows of steps on request."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pytest_tfperf.core.image_data import Data
from pytest_tfperf.core.run import Window
from pytest_tfperf.core.step_profile import StepProfile
from pytest_tfperf.core.topology import Devices
from pytest_tfperf.core.workload import Workload

Progress = Callable[[str], None]
"""Is told each phase of a worker's start: "devices", "input pipeline", "model", "compile"."""

SKIPPED = "skipped_records"
"""Under this name an attempt's environment says which corrupt records were left out; absent where none was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one worker is to do.

    Args:
        workload: what to train.
        devices: what to train it on.
        seed: for the initial weights and the synthetic images.
        slowdown: fraction of its throughput that the worker loses on purpose, 0 to below 1.
        data: where real images lie, for pipelines that read them.
        cores: that affinity and quota leave; None: as many as the affinity says.
        max_seconds: the worker ends after so long, whatever it does.
    """

    workload: Workload
    devices: Devices
    seed: int = 0
    slowdown: float = 0.0
    data: Data = field(default_factory=Data)
    cores: int | None = None
    max_seconds: float = math.inf


class TrainingRun(Protocol):
    """A training process that is compiled and ready.

    Windows run back to back where the caller keeps one request ahead of the answers that it reads: a worker that
    idles between windows lets its input pipeline fill its buffers, and its next window then reads too fast.
    """

    @property
    def images_per_step(self) -> int:
        """Batch size times replicas, over all nodes."""

    @property
    def compile_seconds(self) -> float:
        """The first call: tracing, compiling and one step."""

    @property
    def fetches(self) -> bool:
        """Whether each step fetches its batch."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Versions of what the worker runs on."""

    @property
    def log(self) -> str:
        """The worker's log file."""

    def request(self, steps: int) -> None:
        """Queue a window of `steps` steps; returns at once."""

    def receive(self) -> Window:
        """The oldest requested window's result.

        Raises:
            MeasurementError: the worker raised, died or fell silent; says in which phase, why, and its log's end.
                `OutOfMemory` where it is known to have been that, `OutOfTime` where its job's `max_seconds` are over.
        """

    def examine(self, *, products: bool, multiply_adds: bool) -> StepProfile:
        """What its step is made of, after the last window that will be read: one that is still queued is dropped.

        Where batches are fetched, fetches some without training. What the worker can't find out is None. May be asked
        again.

        Args:
            products: time matrix products, too, on the first device alone.
            multiply_adds: count those of the model, too.

        Raises:
            MeasurementError: the worker died or fell silent.
        """

    def close(self) -> None:
        """End the worker and all that it started; never raises."""


class Launcher(Protocol):
    """Starts workers of one kind; used for a whole session."""

    def start(self, job: Job, progress: Progress) -> TrainingRun:
        """A fresh worker that has compiled the job's step.

        Raises:
            MeasurementError: the worker could not start, raised, died or fell silent; `OutOfMemory`, `OutOfTime`, as
                there.
        """

    def close(self) -> None:
        """End everything that was started; never raises."""
