"""Drives one worker: warms it up, sizes its windows, keeps one window queued ahead, stops when enough is known."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.judging.steady_state import settled_from, unsettled
from pytest_tfperf.workers.launcher import TrainingRun

WINDOW_SECONDS = 0.15  # long against the cost of a call, short against a neighbour's burst
LEAST_WINDOWS = 20  # where steps are few, windows get shorter rather than fewer: no interval comes from three

LEAST_TO_KNOW = 3
"""Windows from which a run's error can be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much to run, in tf_cnn_benchmarks' words.

    Args:
        steps: the most steps that are timed (its `num_batches`).
        warmup_steps: the least steps before them that are not (its `num_warmup_batches`).
        max_seconds: timing ends here even where steps are left, but not before three windows: fewer have no error.

    Raises:
        WorkloadError: no steps to time, or a negative warm-up.
    """

    steps: int = 100
    warmup_steps: int = 10
    max_seconds: float = math.inf

    def __post_init__(self) -> None:
        if not isinstance(self.steps, int) or self.steps < 1:
            raise WorkloadError(f"steps={self.steps!r}: at least one step must be timed")
        if not isinstance(self.warmup_steps, int) or self.warmup_steps < 0:
            raise WorkloadError(f"warmup_steps={self.warmup_steps!r}: a number of steps from 0")


SMOKE = Plan(steps=1, warmup_steps=0)
"""One window: does it run at all?"""

Enough = Callable[[Run], bool]
"""Asked now and then with the attempt so far: may it stop?"""


class Watch(Protocol):
    """Is told how a measurement comes along."""

    def phase(self, name: str) -> None:
        """A phase of the worker begins: "start", "model", ..., "warm-up", "steps"."""

    def window(self, attempt: Run, plan: Plan) -> None:
        """A timed window came in; `attempt` holds all so far."""

    def ended(self, attempt: Run) -> None:
        """All windows are in; `attempt` is what they come to: those that had not settled are warm-up in it."""

    def done(self) -> None:
        """The attempt is over, well or not."""


def run_attempt(run: TrainingRun, plan: Plan, watch: Watch, enough: Enough = lambda _: False) -> Run:
    """Warm up, then time windows until the plan's steps are spent or `enough` says so.

    Raises:
        MeasurementError: from the worker.
    """
    queue = _Queue(run)
    watch.phase("warm-up")
    warmup = _warm_up(queue, plan)
    steps = window_steps(warmup, plan)
    queue.ask(steps)
    warmup.append(queue.take())
    watch.phase("steps")
    windows: list[Window] = []
    spent = 0.0
    most = max(1, plan.steps // steps)
    while len(windows) < most:
        if len(windows) + 1 < most:
            queue.ask(steps)  # before the answer to the last is read, so that the worker never waits
        windows.append(queue.take())
        attempt = _attempt(run, warmup, windows)
        watch.window(attempt, plan)
        spent += windows[-1].seconds
        if spent >= plan.max_seconds and len(windows) >= LEAST_TO_KNOW:
            break
        if len(windows) >= LEAST_WINDOWS and len(windows) % 10 == 0 and enough(settled(attempt)):
            break
    attempt = settled(attempt)
    watch.ended(attempt)
    return attempt


def settled(attempt: Run) -> Run:
    """The attempt with its unsettled first windows counted as warm-up, and the reason where it never settled."""
    cut = settled_from(attempt.windows, fetches=attempt.fetches)
    return replace(
        attempt,
        warmup=attempt.warmup + attempt.windows[:cut],
        windows=attempt.windows[cut:],
        unsettled=unsettled(attempt.windows[cut:], fetches=attempt.fetches),
    )


def _attempt(run: TrainingRun, warmup: Sequence[Window], windows: Sequence[Window]) -> Run:
    return Run(
        windows=tuple(windows),
        images_per_step=run.images_per_step,
        warmup=tuple(warmup),
        compile_seconds=run.compile_seconds,
        environment=run.environment,
        log=run.log,
        fetches=run.fetches,
    )


def window_steps(warmup: Sequence[Window], plan: Plan) -> int:
    """Steps a window: about `WINDOW_SECONDS` long by the latest warm-up, yet at least `LEAST_WINDOWS` of them."""
    latest = warmup[-1]
    fitting = round(WINDOW_SECONDS * latest.steps / latest.seconds)
    return max(1, min(fitting, plan.steps // LEAST_WINDOWS))


def _warm_up(queue: _Queue, plan: Plan) -> list[Window]:
    """At least the plan's steps, in windows of the size that will be timed; leaves one more in the queue.

    cuDNN chooses its algorithms and the allocator grows in the first steps; timing them would punish short runs.
    """
    done: list[Window] = []
    queue.ask(1)
    while not done or sum(w.steps for w in done) < plan.warmup_steps:
        queue.ask(window_steps(done, plan) if done else 1)
        done.append(queue.take())
    return done


class _Queue:
    def __init__(self, run: TrainingRun) -> None:
        self._run = run
        self._asked: deque[int] = deque()

    def ask(self, steps: int) -> None:
        self._asked.append(steps)
        self._run.request(steps)

    def take(self) -> Window:
        self._asked.popleft()
        return self._run.receive()
