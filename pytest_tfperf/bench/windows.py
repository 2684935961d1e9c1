"""Drives one worker: warms it up, sizes its windows, keeps one window queued ahead, and stops when enough is known."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_tfperf.core.observer import WINDOW_SECONDS, Enough, Observer
from pytest_tfperf.core.plan import Plan
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.throughput import MIN_WINDOWS_FOR_ERROR
from pytest_tfperf.judging.steady_state import in_steady_state
from pytest_tfperf.workers.training_run import TrainingRun

MIN_WINDOWS = 20  # with few steps windows get shorter rather than fewer: three windows give no useful interval


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
