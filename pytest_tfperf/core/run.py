"""A run: the plan of its steps, the observers of its progress, and its raw data as a worker or a log gave them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from statistics import median
from typing import Final, Protocol

from pytest_tfperf.core.disturbance import Disturbance
from pytest_tfperf.core.figure import Figure, require_fixed_places
from pytest_tfperf.core.profile import StepProfile
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.errors import WorkloadError


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The extent of a run.

    Raises:
        WorkloadError: no steps to time, a negative warm-up, or a figure whose value depends on where a program ends.
    """

    steps: int = 100  # the most steps that are timed (`num_batches` of tf_cnn_benchmarks)
    warmup_steps: int = 10  # the least steps before them that are not timed (its `num_warmup_batches`)
    # the time after which timing ends early, though not before three windows: fewer have no error
    max_seconds: float = math.inf
    max_warmup_seconds: float = math.inf  # the time after which the steps before end early
    is_by_time: bool = False  # whether it is meant to end by `max_seconds`, however many steps that are
    counts_readings: bool = False  # whether `steps` counts the readings of a user's command
    until_end: bool = False  # whether a user's command is read to its end, whatever `steps` says
    also: tuple[Figure, ...] = ()  # the figures that a run measures beside its throughput

    def __post_init__(self) -> None:
        if not isinstance(self.steps, int) or self.steps < 1:
            raise WorkloadError(f"steps={self.steps!r}: at least one step must be timed")
        if not isinstance(self.warmup_steps, int) or self.warmup_steps < 0:
            raise WorkloadError(f"warmup_steps={self.warmup_steps!r}: give a whole number of steps, 0 or more")
        if self.counts_readings and not self.until_end:
            require_fixed_places(self.also)


ONE_WINDOW = Plan(steps=1, warmup_steps=0)
"""The plan of a smoke run, which only shows whether the test starts."""


@dataclass(frozen=True, slots=True)
class Window:
    """A few consecutive steps, timed together."""

    steps: int  # steps in the window, at least 1
    seconds: float  # from the start of the first step until every device has finished the last update
    loss: float | None = None  # the last step's loss; None where the source gives none
    examples: int | None = None  # examples in it, in units, where steps hold different numbers; None where not


@dataclass(frozen=True, slots=True)
class StepParts:
    """The mean parts of a program's step, in seconds, by the clock of its own thread."""

    input: float  # it waits for batches
    compute: float  # from a batch to the step's end
    other: float  # from a step's end to the fetch of the next batch: logging, checkpoints

    @classmethod
    def of(cls, runs: Iterable[Run]) -> StepParts | None:
        """The median of each part over runs; None where no run knows them."""
        known = [asdict(run.step_parts) for run in runs if run.step_parts is not None]
        return cls(**{name: median(parts[name] for parts in known) for name in known[0]}) if known else None


@dataclass(frozen=True, slots=True)
class Run:
    """The data of one fresh worker process, or of a log."""

    windows: tuple[Window, ...]  # the timed windows, in order
    examples_per_step: int  # batch size times replicas, over all nodes, in units: a batch of token ids may count tokens
    # the windows before the timed ones, including those that proved not to be steady yet
    warmup: tuple[Window, ...] = ()
    compile_seconds: float | None = None  # time of the first call: tracing, compiling and one step; None for a log
    # the total that a log's program printed, which is then the run's throughput; or the value of a run whose windows
    # did not travel with the document of its session
    stated_examples_per_sec: float | None = None
    # the worker's versions and options, "tensorflow" -> "2.21.0"
    environment: Mapping[str, str] = field(default_factory=dict)
    step_parts: StepParts | None = None  # of a user's program; None where its batches are not seen
    not_counted: str = ""  # of a user's program: what it did beside the steps that count, in words; "" for nothing
    disturbance: Disturbance | None = None  # what disturbed the run; None for a good run
    log: str = ""  # the worker's log file, or the log that was replayed
    # clocks, load, temperature and the like during the run; None where nothing was sampled
    telemetry: Telemetry | None = None
    step_profile: StepProfile | None = None  # the parts of a step; None where the worker was not asked
    # whether each step fetches its batch from an input pipeline, so that a stall and the batches that were ready after
    # it belong together
    fetches: bool = False
    unit: str = "images"  # the unit of an example: "images", "examples", "tokens", or a user's own word
    # telemetry of each second, without processes' names, from the first window of the warm-up on; for a user's command
    # from its first timed window
    polls: tuple[Telemetry, ...] = ()
    # for a user's command, the lines with a rate that were not read, or why only steps are counted; "" for neither
    not_read: str = ""
    ended_by_time: bool = False  # whether timing ended by `Plan.max_seconds`, before all steps of the plan
    # the values of the figures beside the throughput, by name, without those that the run did not give
    figures: Mapping[str, float] = field(default_factory=dict)
    # for several ranks, the rank that a figure's value is of: the largest memory, the slowest first step
    figure_ranks: Mapping[str, str] = field(default_factory=dict)
    # where a program printed each figure: "at step 400", "at the end". Values of different places are not compared.
    figure_places: Mapping[str, str] = field(default_factory=dict)

    def rate(self, window: Window) -> float:
        """Return a window's throughput in units per second."""
        return self.examples(window) / window.seconds

    def examples(self, window: Window) -> float:
        """Return the examples of a window, in units."""
        return window.examples or self.examples_per_step * window.steps


@dataclass(frozen=True, slots=True)
class Pair:
    """Two interleaved runs, so that changes of the machine affect both alike."""

    # a, b: the two runs; in a check, the reference environment and the current one
    a: Run
    b: Run
    log_ratio: float  # ln(throughput of b / throughput of a)
    error: float  # standard error of `log_ratio` from the windows, without the differences between processes
    # the most by which disturbances can have changed `log_ratio`; above 0 where a lost more time to them
    unevenness: float = 0.0
    # whether both sides were disturbed alike, or not at all. An uneven pair counts only where no try is even.
    is_even: bool = True

    @property
    def disturbance(self) -> Disturbance | None:
        """The disturbance of a, or else of b; None if neither was disturbed."""
        return self.a.disturbance or self.b.disturbance

    @property
    def uncertainty(self) -> float:
        """The error of `log_ratio` from the windows and from uneven disturbances."""
        return math.hypot(self.error, self.unevenness)


WINDOW_SECONDS: Final = 0.15
"""The length of a window: much longer than the overhead of a call, shorter than most disturbances."""

Enough = Callable[[Run], bool]
"""A function that gets the run so far every ten windows, and returns whether it may end."""


class OwnRun(StrEnum):
    """The labels of a test's own runs, which a progress line numbers."""

    FIRST = "run"
    CONFIRMATION = "confirmation run"
    BASELINE = "baseline run"
    CONTROL = "control run"


class WindowObserver(Protocol):
    """An observer of a run's windows."""

    def window(self, run: Run, plan: Plan) -> None:
        """Note that a timed window has ended; `run` holds all windows so far."""

    def ended(self, run: Run) -> None:
        """Note that the last window has ended; in `run`, windows before the steady state count as warm-up."""


class Observer(WindowObserver, Protocol):
    """An observer of a measurement's progress."""

    def begin(self, label: str) -> None:
        """Note that a run begins: an `OwnRun`, "reference environment", "on device data", ..."""

    def phase(self, name: str) -> None:
        """Note that a phase of the worker begins: "start", "model", ..., "warm-up", "steps"."""

    def notice(self, text: str) -> None:
        """Note what a user's command has been seen to do, while its first reading is late; called again and again."""

    def disturbed(self, disturbance: Disturbance) -> None:
        """Note that the run that has ended was disturbed."""

    def done(self) -> None:
        """Note that the worker has ended, successfully or not."""
