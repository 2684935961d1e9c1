"""One run: how many steps it takes, who is told of its progress, and the raw data that it gave.

The data are as workers (or a log) gave them; nothing is summarised here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from pytest_tfperf.core.disturbance import Disturbance
from pytest_tfperf.core.figure import Figure, require_fixed_places
from pytest_tfperf.core.profile import StepProfile
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.errors import WorkloadError


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much a run measures.

    Args:
        steps: the most steps that are timed (its `num_batches`).
        warmup_steps: the least steps before them that are not timed (its `num_warmup_batches`).
        max_seconds: timing ends here even where steps are left, but not before three windows: fewer have no error.
        counts_readings: what a user's command prints is counted, in the place of steps.
        until_end: a user's command is read to its end, whatever `steps` says.
        also: the figures that a run measures beside its throughput.

    Raises:
        WorkloadError: no steps to time, a negative warm-up, or a figure whose value depends on where a program ends.
    """

    steps: int = 100
    warmup_steps: int = 10
    max_seconds: float = math.inf
    counts_readings: bool = False
    until_end: bool = False
    also: tuple[Figure, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.steps, int) or self.steps < 1:
            what = "reading" if self.counts_readings else "step"
            raise WorkloadError(f"{what}s={self.steps!r}: at least one {what} must be timed")
        if not isinstance(self.warmup_steps, int) or self.warmup_steps < 0:
            raise WorkloadError(f"warmup_steps={self.warmup_steps!r}: give a whole number of steps, 0 or more")
        if self.counts_readings and not self.until_end:
            require_fixed_places(self.also)


ONE_WINDOW = Plan(steps=1, warmup_steps=0)
"""What a smoke run measures: does the test start at all?"""


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
        figures: what was asked for beside the throughput, by name; a figure that the run could not tell is missing.
        figure_ranks: of several ranks, the one whose value it is: the largest memory, the slowest first step.
        figure_places: of each figure that a program printed, where: "at step 400", "at the end". Values of different
            places are not compared.
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
    figures: Mapping[str, float] = field(default_factory=dict)
    figure_ranks: Mapping[str, str] = field(default_factory=dict)
    figure_places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs that were interleaved, so that whatever the machine did meanwhile hit both alike.

    Args:
        a, b: the two runs; in a check, the reference environment and the current one.
        log_ratio: ln(throughput of b / throughput of a).
        error: standard error of `log_ratio` from the windows; what sets two processes apart is not in it.
        unevenness: the most by which disturbances can have changed `log_ratio`: above 0 where a lost more time to them.
        is_even: whether both sides were disturbed alike, or not at all. Another pair counts only where no try is even.
    """

    a: Run
    b: Run
    log_ratio: float
    error: float
    unevenness: float = 0.0
    is_even: bool = True

    @property
    def disturbance(self) -> Disturbance | None:
        """What disturbed one of its runs or both; None if nothing did."""
        return self.a.disturbance or self.b.disturbance

    @property
    def uncertainty(self) -> float:
        """The error of `log_ratio` from the windows and from uneven disturbances."""
        return math.hypot(self.error, self.unevenness)


WINDOW_SECONDS: Final = 0.15
"""How long a window is timed: much longer than the overhead of a call, shorter than most disturbances."""

Enough = Callable[[Run], bool]
"""Called every ten windows with the run so far; returns whether it may stop."""


class OwnRun(StrEnum):
    """What the runs of a test itself are called; they are numbered in a progress line."""

    FIRST = "run"
    CONFIRMATION = "confirmation run"
    BASELINE = "baseline run"
    CONTROL = "control run"


class WindowObserver(Protocol):
    """Gets the windows of a run."""

    def window(self, run: Run, plan: Plan) -> None:
        """A timed window has ended; `run` holds all windows so far."""

    def ended(self, run: Run) -> None:
        """The last window has ended; in `run`, windows before the steady state count as warm-up."""


class Observer(WindowObserver, Protocol):
    """Gets the progress of a measurement."""

    def begin(self, label: str) -> None:
        """A run begins: an `OwnRun`, "reference environment", "on device data", ..."""

    def phase(self, name: str) -> None:
        """A phase of the worker begins: "start", "model", ..., "warm-up", "steps"."""

    def disturbed(self, disturbance: Disturbance) -> None:
        """Something disturbed the run that has ended."""

    def done(self) -> None:
        """The worker has ended, whether or not it finished."""
