"""Drives two workers in turns: one computes while the other waits, so that what the machine does hits both alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_tfperf.bench.windows import LEAST_WINDOWS, Plan, window_steps
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.throughput import robust_mean, run_value
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.workers.launcher import Progress, TrainingRun

TURNS = LEAST_WINDOWS
"""Turns of a pair. Two processes differ by more than their windows show, so time is better spent on the next pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """What one pair of fresh workers measured.

    Args:
        a, b: both sides' windows; taken in turns, window i of one ran right beside window i of the other.
        log_ratio: ln(b's throughput / a's): the 20 % trimmed mean over turns.
        error: its standard error from the windows alone; what sets the two processes apart is not in it.
    """

    a: Run
    b: Run
    log_ratio: float
    error: float


def may_take_turns(*workloads: Workload) -> bool:
    """Whether a worker that waits does nothing: a pipeline on the host fills its buffers, and its next window lies."""
    return all(workload.input_pipeline == "device" for workload in workloads)


def take_turns(a: TrainingRun, b: TrainingRun, plan: Plan, progress: Progress, *, b_first: bool = False) -> Pair:
    """Warm both up, then time windows A B, B A, A B, ...: the order is swapped each turn, so that drift cancels.

    No window is queued ahead, as `run_attempt` does: it would compute in the other's turn. So this is for workloads
    that `may_take_turns` only.

    Args:
        a, b: two ready workers, which share the devices.
        plan: the steps are each worker's.
        progress: is told each turn.
        b_first: b takes the first turn.

    Raises:
        MeasurementError: from either worker.
    """
    sides = (_Side(b, plan), _Side(a, plan)) if b_first else (_Side(a, plan), _Side(b, plan))
    for side in sides:
        progress("warm-up")
        side.warm_up()
    turns = max(1, min(TURNS, *(plan.steps // side.steps for side in sides)))
    for turn in range(turns):
        progress(f"turn {turn + 1} of {turns}")
        for side in sides if turn % 2 == 0 else reversed(sides):
            side.windows.append(side.window(side.steps))
        if any(side.seconds >= plan.max_seconds for side in sides):
            break
    first, second = (side.attempt() for side in sides)
    return pair_of_turns(second, first) if b_first else pair_of_turns(first, second)


def pair_of_turns(a: Run, b: Run) -> Pair:
    """A pair whose windows were taken in turns: each turn has a ratio of its own."""
    log_ratio, error = robust_mean([y - x for x, y in zip(_log_rates(a), _log_rates(b), strict=True)])
    return Pair(a=a, b=b, log_ratio=log_ratio, error=error)


def pair_of_runs(a: Run, b: Run) -> Pair:
    """A pair of whole runs, one after the other."""
    x, y = run_value(a), run_value(b)
    return Pair(a=a, b=b, log_ratio=y.log_rate - x.log_rate, error=math.hypot(x.error, y.error))


class _Side:
    def __init__(self, run: TrainingRun, plan: Plan) -> None:
        self._run = run
        self._plan = plan
        self._warmup: list[Window] = []
        self.windows: list[Window] = []

    @property
    def steps(self) -> int:
        """Of each timed window."""
        return window_steps(self._warmup, self._plan)

    @property
    def seconds(self) -> float:
        """Timed so far."""
        return sum(w.seconds for w in self.windows)

    def warm_up(self) -> None:
        self._warmup.append(self.window(1))
        while sum(w.steps for w in self._warmup) < self._plan.warmup_steps:
            self._warmup.append(self.window(self.steps))

    def window(self, steps: int) -> Window:
        self._run.request(steps)
        return self._run.receive()

    def attempt(self) -> Run:
        return Run(
            windows=tuple(self.windows),
            images_per_step=self._run.images_per_step,
            warmup=tuple(self._warmup),
            compile_seconds=self._run.compile_seconds,
            environment=self._run.environment,
            log=self._run.log,
        )


def _log_rates(attempt: Run) -> Sequence[float]:
    return [math.log(attempt.images_per_step * w.steps / w.seconds) for w in attempt.windows]
