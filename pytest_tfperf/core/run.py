"""The raw data of a measurement, as the workers (or a log) gave it: nothing is summarised here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pytest_tfperf.core.conditions import Conditions
from pytest_tfperf.core.step_parts import Parts


@dataclass(frozen=True, slots=True)
class Window:
    """A run of steps that were timed together.

    Args:
        steps: steps in the window, at least 1.
        seconds: from the first step's start until every device has finished the last update.
        loss: the last step's loss; None where the source gives none.
    """

    steps: int
    seconds: float
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one worker process measured.

    Args:
        windows: the timed windows, in order.
        warmup: the windows before them, which count for nothing; those too that turned out to be not settled yet.
        images_per_step: batch size times replicas, over all nodes.
        compile_seconds: the first call: tracing, compiling and one step; None in a log.
        stated_images_per_sec: the total that a log's program printed itself, which then is the attempt's value.
        environment: what the worker ran on: versions, options; "tensorflow" -> "2.21.0".
        disturbance: who else used the machine meanwhile, or what slowed it down; "" where nothing did.
        unsettled: why the windows are no steady state; "" where they are.
        log: the worker's log file, or the log that was replayed.
        conditions: what the machine was like meanwhile; None where nobody looked.
        parts: what the worker's step is made of; None where it wasn't asked.
        fetches: each step fetches its batch: a stall, and the batches that lay ready after it, belong together.
    """

    windows: tuple[Window, ...]
    images_per_step: int
    warmup: tuple[Window, ...] = ()
    compile_seconds: float | None = None
    stated_images_per_sec: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    unsettled: str = ""
    disturbance: str = ""
    log: str = ""
    conditions: Conditions | None = None
    parts: Parts | None = None
    fetches: bool = False

    def disturbed_by(self, disturbance: str) -> Attempt:
        """The same attempt, with what is known of its surroundings."""
        return replace(self, disturbance=disturbance)


@dataclass(frozen=True, slots=True)
class Trial:
    """All attempts at one workload on one topology, each in a fresh worker, in the order they ran.

    Args:
        attempts: those that count.
        set_aside: those that something disturbed, so that they count for nothing; kept to be shown.
    """

    attempts: tuple[Attempt, ...]
    set_aside: tuple[Attempt, ...] = ()

    def believed(self) -> Trial:
        """The same, with what was disturbed set aside."""
        disturbed = tuple(attempt for attempt in self.attempts if attempt.disturbance)
        kept = tuple(attempt for attempt in self.attempts if not attempt.disturbance)
        return Trial(kept, self.set_aside + disturbed)
