"""Drives one worker: warms it up, sizes its windows, keeps one window queued ahead, and stops when enough is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from pytest_tfperf.core.disturbance import Disturbance, DisturbanceKind
from pytest_tfperf.core.plan import Plan
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.judging.steady_state import settled_from, why_not_steady
from pytest_tfperf.workers.training_run import TrainingRun

WINDOW_SECONDS = 0.15  # much longer than the overhead of a call, shorter than most disturbances
MIN_WINDOWS = 20  # with few steps windows get shorter rather than fewer: three windows give no useful interval

MIN_WINDOWS_FOR_ERROR = 3
"""Windows from which the error of a run's throughput can be estimated."""

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


def time_windows(training: TrainingRun, plan: Plan, observer: Observer, enough: Enough = lambda _: False) -> Run:
    """Warm up, then time windows until the plan's steps are spent or `enough` says so.

    Raises:
        MeasurementError: from the worker.
    """
    observer.phase("warm-up")
    warmup = _warm_up(training, plan)
    steps = window_steps(warmup, plan)
    training.request(steps)
    warmup.append(training.receive())
    observer.phase("steps")
    windows: list[Window] = []
    seconds = 0.0
    most = max(1, plan.steps // steps)
    while len(windows) < most:
        if len(windows) + 1 < most:
            training.request(steps)  # before the last answer is read, so that the worker never waits
        windows.append(training.receive())
        run = run_of(training, warmup, windows)
        observer.window(run, plan)
        seconds += windows[-1].seconds
        if seconds >= plan.max_seconds and len(windows) >= MIN_WINDOWS_FOR_ERROR:
            break
        if len(windows) >= MIN_WINDOWS and len(windows) % 10 == 0 and enough(in_steady_state(run)):
            break
    run = in_steady_state(run)
    observer.ended(run)
    return run


def in_steady_state(run: Run) -> Run:
    """The run with the windows before its steady state counted as warm-up; disturbed if it never became steady."""
    cut = settled_from(run.windows, fetches=run.fetches)
    windows = run.windows[cut:]
    why = why_not_steady(windows, fetches=run.fetches)
    return replace(
        run,
        warmup=run.warmup + run.windows[:cut],
        windows=windows,
        disturbance=Disturbance(DisturbanceKind.NOT_STEADY, why) if why else None,
    )


def run_of(training: TrainingRun, warmup: Sequence[Window], windows: Sequence[Window]) -> Run:
    """What a worker has measured so far."""
    return Run(
        windows=tuple(windows),
        examples_per_step=training.examples_per_step,
        warmup=tuple(warmup),
        compile_seconds=training.compile_seconds,
        environment=training.environment,
        log=training.log,
        fetches=training.fetches,
        unit=training.unit,
    )


def window_steps(warmup: Sequence[Window], plan: Plan) -> int:
    """Steps in a window of about `WINDOW_SECONDS`, judging by the latest warm-up; few enough for `MIN_WINDOWS`."""
    latest = warmup[-1]
    fitting = round(WINDOW_SECONDS * latest.steps / latest.seconds)
    return max(1, min(fitting, plan.steps // MIN_WINDOWS))


def _warm_up(training: TrainingRun, plan: Plan) -> list[Window]:
    """At least the plan's warm-up, in windows of the size that will be timed; leaves one more window queued.

    cuDNN chooses its algorithms and the allocator grows in the first steps; timing them would punish short runs.
    """
    warmup: list[Window] = []
    training.request(1)
    while not warmup or sum(w.steps for w in warmup) < plan.warmup_steps:
        training.request(window_steps(warmup, plan) if warmup else 1)
        warmup.append(training.receive())
    return warmup
