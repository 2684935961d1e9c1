"""Times the windows of one worker, or of two in turn, so that changes of the machine affect both alike.

A worker is warmed up, its windows are sized, one window is queued ahead, and it stops when enough is known. After the
last window it profiles its step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.figure import FIXED_STEP, LOSS, Figure, over_steps
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.profile import Input, StepProfile
from pytest_tfperf.core.run import WINDOW_SECONDS, Enough, Observer, Pair, Plan, Run, Window
from pytest_tfperf.core.throughput import MIN_WINDOWS_FOR_ERROR, robust_mean, run_value
from pytest_tfperf.core.topology import DeviceKind
from pytest_tfperf.core.workload import DISTRIBUTED, Trainer
from pytest_tfperf.errors import TfperfError, TrainingEnded
from pytest_tfperf.judging.breakdown import products_fraction
from pytest_tfperf.judging.validity import in_steady_state
from pytest_tfperf.workers.training_run import TrainingRun
from pytest_tfperf.workers.worker_run import Progress

MIN_WINDOWS = 20  # with few steps windows get shorter rather than fewer: three windows give no useful interval

_MOST_STEPS = 50  # of a window on the way to a later step: nothing is heard of a training meanwhile

WINDOWS_PER_SIDE = MIN_WINDOWS
"""Two processes differ by more than their windows show, so another pair tells more than further windows."""


def can_interleave_windows(*workloads: Subject) -> bool:
    """Whether a worker that waits computes nothing.

    A pipeline on the host fills its buffers while it waits, and its next window would be too fast. A user's own
    training may do that too. A user's program is stopped instead, where its steps are known (`TrainingRun.hold`). If
    two jobs have several ranks each, the second may not get nodes until the first has ended, as under Slurm.
    """
    return all(
        workload.is_probed
        if isinstance(workload, Command)
        else workload.input_pipeline == "device"
        and workload.variable_update not in DISTRIBUTED
        and workload.trainer is not Trainer.OWN
        for workload in workloads
    )


def interleave(a: TrainingRun, b: TrainingRun, plan: Plan, progress: Progress, *, b_first: bool = False) -> Pair:
    """Warm both up, then time windows A B, B A, A B, ...: the order is swapped each time, so that drift cancels.

    Unlike in `time_windows`, no window is queued ahead: it would run at the same time as the other side's window. So
    the workloads must satisfy `can_interleave_windows`. The two workers are ready, and share the devices.
    """
    side_a, side_b = _TimedRun(a, plan), _TimedRun(b, plan)
    order = (side_b, side_a) if b_first else (side_a, side_b)
    for side in order:
        progress("warm-up")
        side.warm_up()
        side.hold()
    rounds = max(1, min(WINDOWS_PER_SIDE, *(plan.steps // side.steps for side in order)))
    for number in range(rounds):
        progress(f"window {number + 1} of {rounds}")
        for side in order if number % 2 == 0 else reversed(order):
            side.windows.append(side.window(side.steps))
            side.hold()
        is_spent = any(side.seconds >= plan.max_seconds for side in order)
        if is_spent and number + 1 >= MIN_WINDOWS_FOR_ERROR:
            break
    run_a, run_b = side_a.run(), side_b.run()
    # Each round has a ratio of its own.
    log_ratio, error = robust_mean([y - x for x, y in zip(_log_rates(run_a), _log_rates(run_b), strict=True)])
    return Pair(a=run_a, b=run_b, log_ratio=log_ratio, error=error)


def pair_of_runs(a: Run, b: Run) -> Pair:
    """Return a pair of whole runs, taken one after the other."""
    x, y = run_value(a), run_value(b)
    return Pair(a=a, b=b, log_ratio=y.log_rate - x.log_rate, error=math.hypot(x.error, y.error))


class _TimedRun:
    """A run of a pair, whose windows are timed in turn with the other run's."""

    def __init__(self, training: TrainingRun, plan: Plan) -> None:
        self._training = training
        self._plan = plan
        self._warmup: list[Window] = []
        self.windows: list[Window] = []

    @property
    def steps(self) -> int:
        """How many steps each timed window has."""
        return window_steps(self._warmup, self._plan)

    @property
    def seconds(self) -> float:
        """How long the timed windows took so far."""
        return sum(w.seconds for w in self.windows)

    def hold(self) -> None:
        self._training.hold()

    def warm_up(self) -> None:
        for steps in first_windows(self._plan, self._training.taken):
            self._warmup.append(self.window(steps))
        while not _is_warmed_up(self._warmup, self._plan, self._training.taken):
            self._warmup.append(self.window(self.steps))

    def window(self, steps: int) -> Window:
        self._training.request(steps)
        return self._training.receive()

    def run(self) -> Run:
        return run_of(self._training, self._warmup, self.windows)


def _log_rates(run: Run) -> list[float]:
    return [math.log(run.rate(window)) for window in run.windows]


def time_windows(
    training: TrainingRun,
    plan: Plan,
    observer: Observer,
    enough: Enough = lambda _: False,
    is_warm: Callable[[], bool] = lambda: True,
) -> Run:
    """Warm up until `is_warm`, then time windows until the plan's steps are spent or `enough` says so."""
    observer.phase("warm-up")
    warmup = _warm_up(training, plan, is_warm)
    steps = _sized(training, warmup, plan)
    observer.phase("steps")
    windows: list[Window] = []
    seconds, ended_by_time = 0.0, False
    most = max(1, plan.steps // steps)
    while len(windows) < most:
        if len(windows) + 1 < most:
            training.request(steps)  # before the last answer is read, so that the worker never waits
        try:
            windows.append(training.receive())
        except TrainingEnded:
            if len(windows) < MIN_WINDOWS_FOR_ERROR:
                raise
            break
        run = run_of(training, warmup, windows)
        observer.window(run, plan)
        seconds += windows[-1].seconds
        if _are_too_short(windows, plan) and len(windows) < most:
            warmup += windows
            steps, seconds, windows = _sized(training, warmup, plan), 0.0, []
            most = max(1, plan.steps // steps)
            continue
        if seconds >= plan.max_seconds and MIN_WINDOWS_FOR_ERROR <= len(windows) < most:
            ended_by_time = not plan.is_by_time
            break
        if len(windows) >= MIN_WINDOWS and len(windows) % 10 == 0 and enough(in_steady_state(run)):
            break
    run = in_steady_state(replace(run, ended_by_time=ended_by_time))
    observer.ended(run)
    return run


def run_of(training: TrainingRun, warmup: Sequence[Window], windows: Sequence[Window]) -> Run:
    """Return the run of a worker's windows so far."""
    return Run(
        windows=tuple(windows),
        examples_per_step=training.examples_per_step,
        warmup=tuple(warmup),
        compile_seconds=training.compile_seconds,
        environment=training.environment,
        log=training.log,
        fetches=training.fetches,
        unit=training.unit,
        not_read=training.note,
        step_parts=training.step_parts(len(windows)),
        not_counted=training.not_counted(len(windows)),
    )


def first_windows(plan: Plan, taken: int = 1) -> list[int]:
    """Return the steps of the first windows of the warm-up: one, or as the figures need them.

    So many steps were `taken` before: the first step of all belongs to a worker's start.
    """
    ends = {end for figure in plan.also for end in figure.window_ends if end > taken}
    if ends:
        ends.update(range(taken + _MOST_STEPS, max(ends), _MOST_STEPS))
    return [end - before for before, end in pairwise([taken, *sorted(ends)])] or [1]


def window_steps(warmup: Sequence[Window], plan: Plan) -> int:
    """Return the steps in a window of about `WINDOW_SECONDS`, by the latest warm-up; few enough for `MIN_WINDOWS`."""
    latest = warmup[-1]
    fitting = round(WINDOW_SECONDS * latest.steps / latest.seconds)
    return max(1, min(fitting, plan.steps // MIN_WINDOWS))


def _sized(training: TrainingRun, warmup: list[Window], plan: Plan) -> int:
    """Queue a window of the size to be timed, and add the one that was queued before to the warm-up."""
    steps = window_steps(warmup, plan)
    training.request(steps)
    warmup.append(training.receive())
    return steps


def _are_too_short(windows: Sequence[Window], plan: Plan) -> bool:
    """Whether steps were so much slower in the warm-up, or on a busy machine, that their windows are far too small.

    Else a program of fast steps would be timed by a million windows of one.
    """
    if len(windows) % 10 != MIN_WINDOWS_FOR_ERROR or window_steps(windows, plan) < 4 * windows[-1].steps:
        return False
    return sum(window.seconds for window in windows) < len(windows) * WINDOW_SECONDS / 4


def _warm_up(training: TrainingRun, plan: Plan, is_warm: Callable[[], bool]) -> list[Window]:
    """Warm up for at least the plan's steps, in windows of the size to be timed; leave one more window queued.

    cuDNN chooses its algorithms and the allocator grows in the first steps; timing them would punish short runs.
    """
    warmup: list[Window] = []
    first = first_windows(plan, training.taken)
    is_printed = any(figure.is_read and figure.last_step is not None for figure in plan.also)
    training.request(first[0])
    while not warmup or not _is_warmed_up(warmup, plan, training.taken) or not is_warm():
        following = len(warmup) + 1
        if following == len(first) and is_printed:
            # It waits, so that all that it has printed was printed up to this step.
            warmup.append(training.receive())
            training.request(window_steps(warmup, plan))
            continue
        if following < len(first):
            training.request(first[following])
        else:
            training.request(window_steps(warmup, plan) if warmup else 1)
        warmup.append(training.receive())
    return warmup


def _is_warmed_up(warmup: Sequence[Window], plan: Plan, taken: int) -> bool:
    first = len(first_windows(plan, taken))
    if len(warmup) < first + (first > 1):  # one step's time says little about the size of the windows to be timed
        return False
    steps, seconds = 0, 0.0
    for window in warmup:
        steps, seconds = steps + window.steps, seconds + window.seconds
    return steps >= plan.warmup_steps or seconds >= plan.max_warmup_seconds


def with_figures(run: Run, training: TrainingRun, plan: Plan) -> Run:
    """Add the figures that the plan asks for to a run; a figure that the worker can't tell is left out.

    Call it after the last window was read, and before any other measurement in the worker, which would need memory.
    """
    if not plan.also:
        return run
    measured = [figure.name for figure in plan.also if figure.is_measured]
    of_ranks = dict(training.figures(measured)) if measured else {}
    if any(figure.is_read for figure in plan.also):
        of_ranks |= training.printed()
    figures = {name: figure.value for name, figure in of_ranks.items()}
    places = {name: figure.place for name, figure in of_ranks.items() if figure.place}
    for figure in plan.also:
        if figure.is_read:
            continue
        if figure.name == LOSS and (loss := _loss(run, figure, training.taken)) is not None:
            figures[LOSS] = loss
        if figure.steps is not None and figure.name in figures:
            places[figure.name] = over_steps(figure.steps)
        elif figure.is_count and figure.name in figures:
            places[figure.name] = f"up to step {FIXED_STEP}"
    ranks = {name: figure.rank for name, figure in of_ranks.items() if figure.rank}
    return replace(run, figures=figures, figure_ranks=ranks, figure_places=places)


def _loss(run: Run, figure: Figure, taken: int) -> float | None:
    """Return the loss of `FIXED_STEP`, or the mean over the figure's own steps; None where the source gives none."""
    first, last = figure.steps or (FIXED_STEP, FIXED_STEP)
    step, losses = taken, []
    for window in run.warmup:
        step += window.steps
        if first <= step <= last:
            losses.append(window.loss)
    known = [loss for loss in losses if loss is not None]
    return fmean(known) if known and len(known) == len(losses) else None


class StepProfiler:
    """Has workers under one interpreter profile their step after the last window; one for a session.

    Facts that stay the same in a session are asked for once: a model's multiply-adds, and the rate of matrix products.
    That rate is the most that a device reaches. If a step exceeds it, the machine was slow when the rate was timed. The
    rate is then timed again, and the session keeps the higher rate.
    """

    def __init__(self) -> None:
        self._rates: dict[object, float | None] = {}  # matrix products of one device, multiply-adds a second
        self._multiply_adds: dict[object, int | None] = {}  # of each model, forward

    def profile(self, training: TrainingRun, job: Job, examples_per_sec: float) -> StepProfile | None:
        """Return the profile of the worker's step; None if that fails, because the windows are already measured."""
        devices, workload = job.devices, job.workload
        kind = (devices.kind, devices.gpu_uuids[:1], workload.precision, workload.tf32, job.ranks)
        model = (workload.model, workload.unit, workload.tokens_of)
        products, multiply_adds = kind not in self._rates, model not in self._multiply_adds
        try:
            profile = training.profile_step(matrix_products=products, multiply_adds=multiply_adds)
        except (TfperfError, OSError):
            return None
        if profile.input in (Input.ALONE, Input.OWN):  # there is no model
            return profile
        if products:
            self._rates[kind] = profile.products_multiply_adds_per_sec
        if multiply_adds:
            self._multiply_adds[model] = profile.forward_multiply_adds
        hosts = max(1, len({rank.host for rank in profile.ranks}))
        profile = replace(
            profile,
            cores=(job.cores or 1) * hosts if devices.kind is DeviceKind.CPU else None,
            forward_multiply_adds=self._multiply_adds[model],
            products_multiply_adds_per_sec=self._rate(kind, job),
        )
        share = products_fraction(
            profile.forward_multiply_adds, profile.products_multiply_adds_per_sec, examples_per_sec, workload
        )
        if share is None or share <= 1:
            return profile
        with suppress(TfperfError, OSError):
            again = training.profile_step(matrix_products=True, multiply_adds=False).products_multiply_adds_per_sec
            self._rates[kind] = max(self._rates[kind] or 0.0, again or 0.0)
        return replace(profile, products_multiply_adds_per_sec=self._rate(kind, job))

    def _rate(self, kind: object, job: Job) -> float | None:
        """Return the rate of all devices together; virtual devices share the CPU's cores or their GPU.

        Ranks time their devices at the same time, so their rate is already a sum.
        """
        rate, devices = self._rates[kind], job.devices
        shared = devices.split or devices.kind is DeviceKind.CPU
        separate = 1 if shared else devices.count // job.ranks_per_node
        return None if rate is None else rate * separate
