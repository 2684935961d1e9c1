"""The raw data of a measurement, as workers (or a log) gave it; nothing is summarised here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_tfperf.core.disturbance import Disturbance
from pytest_tfperf.core.step_profile import StepProfile
from pytest_tfperf.core.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Window:
    """A few consecutive steps, timed together.

    Args:
        steps: steps in the window, at least 1.
        seconds: from the start of the first step until every device has finished the last update.
        loss: the last step's loss; None where the source gives none.
    """

    steps: int
    seconds: float
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """What one fresh worker process measured.

    Args:
        windows: the timed windows, in order.
        examples_per_step: batch size times replicas, over all nodes, in units: a batch of token ids may count tokens.
        unit: what is counted: "images", "examples", "tokens", or a user's own word.
        warmup: the windows before them, which are not counted; also those that turned out not to be steady yet.
        compile_seconds: the first call: tracing, compiling and one step; None in a log.
        stated_examples_per_sec: the total that a log's program printed itself, which then is the run's throughput.
        environment: what the worker ran on: versions, options; "tensorflow" -> "2.21.0".
        disturbance: why the run is discarded; None for a good run.
        log: the worker's log file, or the log that was replayed.
        telemetry: clocks, load, temperature and the like during the run; None where nothing was sampled.
        polls: the same second by second, without processes' names, from the first window of the warm-up on; of a user's
            command from its first timed window.
        step_profile: what a step spends its time on; None where the worker was not asked.
        fetches: each step fetches its batch from an input pipeline, so a stall and the batches that were ready after
            it belong together.
        not_read: of a user's command: lines with a rate that were not read, and why; "" for none.
    """

    windows: tuple[Window, ...]
    examples_per_step: int
    warmup: tuple[Window, ...] = ()
    compile_seconds: float | None = None
    stated_examples_per_sec: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    disturbance: Disturbance | None = None
    log: str = ""
    telemetry: Telemetry | None = None
    step_profile: StepProfile | None = None
    fetches: bool = False
    unit: str = "images"
    polls: tuple[Telemetry, ...] = ()
    not_read: str = ""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs that were interleaved, so that whatever the machine did meanwhile hit both alike.

    Args:
        a, b: the two runs; in a check, the reference environment and the current one.
        log_ratio: ln(throughput of b / throughput of a).
        error: standard error of `log_ratio` from the windows alone; what sets two processes apart is not in it.
    """

    a: Run
    b: Run
    log_ratio: float
    error: float

    @property
    def disturbance(self) -> Disturbance | None:
        """Why the pair is discarded; None for a good pair."""
        return self.a.disturbance or self.b.disturbance
