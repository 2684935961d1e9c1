"""The engine that takes runs: one at a time or as an interleaved pair, for checks, baselines and comparisons alike."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace

from pytest_tfperf.bench.disturbance_guard import MOST_SECONDS, DisturbanceGuard, GpuWarmUp, Observation, temperatures
from pytest_tfperf.bench.windows import StepProfiler, interleave, time_windows, with_figures
from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.data_sets import shards
from pytest_tfperf.core.figure import COMPILATIONS, FIRST_STEP, PEAK_MEMORY
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.profile import Input, Trace
from pytest_tfperf.core.run import Enough, Observer, OwnRun, Pair, Plan, Run
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.core.topology import Devices, Topology
from pytest_tfperf.core.workload import Workload, shown_name
from pytest_tfperf.errors import MeasurementError, OneAtATime, OutOfMemory, TfperfError
from pytest_tfperf.hardware import memory
from pytest_tfperf.lines import Line
from pytest_tfperf.programs.beside import Beside
from pytest_tfperf.programs.command_run import CommandRun
from pytest_tfperf.programs.command_windows import CommandWindows
from pytest_tfperf.programs.own_formats import FigureLines
from pytest_tfperf.reports.numbers import size
from pytest_tfperf.workers import catalogue
from pytest_tfperf.workers.failures import log_warnings
from pytest_tfperf.workers.launcher import Launcher
from pytest_tfperf.workers.training_run import TrainingRun

BREAKDOWN_SECONDS = 2.0
"""The longest run on device data after a regression, which shows which part of the step slowed down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two that are compared, or the only one: what is measured, and what starts its workers."""

    workload: Subject
    topology: Topology
    launcher: Launcher
    slowdown: float = 0.0  # fraction of its throughput that it loses on purpose
    name: str = ""  # in messages; "" for its id
    may_lack_figures: bool = False  # a figure that the program never prints is left out of its runs, and is no error
    facts: Mapping[str, str] = field(default_factory=dict)  # for its measurements' environment: "commit" -> "1a2b3c4d"
    document: Baseline | None = None  # the published figure that a required ratio is of

    @property
    def shown(self) -> str:
        """The workload's name for messages."""
        return shown_name(self.workload.id, self.name)


class RunEngine:
    """Takes runs; one for a session.

    Args:
        observer: gets the progress of each run.
        guard: watches the machine while something is timed.
        data_dir: folder of the TFRecords that imagenet pipelines read.
        warm_up_seconds: the longest that GPUs are warmed up; 0 to time them cold.
        sampled: False to watch and profile nothing, as in a smoke run.
    """

    def __init__(
        self,
        observer: Observer,
        guard: DisturbanceGuard,
        data_dir: str = "",
        *,
        sampled: bool = True,
        warm_up_seconds: float = MOST_SECONDS,
    ) -> None:
        self._observer = observer
        self._guard = guard
        self.limits = guard.limits
        self._data_dir = data_dir
        self._sampled = sampled
        self.warm_up = GpuWarmUp(most_seconds=warm_up_seconds if sampled else 0.0)
        # Another TensorFlow may multiply matrices at another rate.
        self._profilers: dict[Launcher, StepProfiler] = {}

    def run(self, side: Side, plan: Plan, *, label: str = OwnRun.FIRST, enough: Enough = lambda _: False) -> Run:
        """Take one run in a fresh worker or program; the run's `disturbance` says whether something disturbed it.

        A program's run on cold GPUs does not count, and the next one is taken.

        Raises:
            WorkloadError: an unknown name, or a workload that these devices can't train.
            NoData, MeasurementError: the workload reads a data set, and there is none.
            MeasurementError: the worker died, hung or raised; OutOfMemory if memory was short.
        """
        topology, devices = side.topology, _devices(side)
        is_read = isinstance(side.workload, Command) and not side.workload.is_probed
        # Ranks that an engine starts on this node are not pytest's children, so they would count as a disturbance.
        is_watched = self._sampled and (not is_read or topology.node_count == 1)
        began = time.monotonic()
        self._observer.begin(label)
        before = self._guard.before(devices.gpu_uuids) if is_watched else None
        with self._named(side), ExitStack() as opened:
            if is_read:
                program = opened.enter_context(self._program(side, plan))
                with self._watching(devices, is_watched=is_watched) as observation:
                    run = program.time(plan, self._observer, enough)
            else:
                training = opened.enter_context(closing(self._training(side, plan)))
                with self._watching(devices, training.pids, is_watched=is_watched) as observation:
                    is_warm = self.warm_up.of(devices.gpu_uuids, observation.temperatures, self._observer.phase)
                    run = time_windows(training, plan, self._observer, enough, is_warm)
                    run = with_figures(run, training, plan)
                if run.disturbance is None and self._sampled:
                    run = self._profiled(side, training, plan, run)
            run = observation.of(run, before)
            if run.disturbance is not None:
                self._observer.disturbed(run.disturbance)
            environment = {**run.environment, **observation.environment}
            if observation.telemetry is not None and observation.telemetry.gpus:
                environment["log_warnings"] = log_warnings(run.log)
            run = replace(run, environment=environment)
        if is_read:
            celsius = [max(known) for poll in run.polls if (known := temperatures(poll))]
            if self.warm_up.was_cold(devices.gpu_uuids, celsius, time.monotonic() - began):
                return self.run(side, plan, label=f"GPU warm-up, {celsius[-1]} C", enough=enough)
        return run

    def _training(self, side: Side, plan: Plan, beside: TrainingRun | None = None) -> TrainingRun:
        """Start a worker, or a program that is measured by its steps; `beside` is the one that runs already."""
        command, topology = side.workload, side.topology
        if isinstance(command, Workload):
            return side.launcher.start(self._job(side, plan), self._observer.phase)
        from pytest_tfperf.programs import probed_run  # a check of a workload imports nothing of the probe

        has_peak = any(figure.name == PEAK_MEMORY for figure in plan.also) and not topology.gpus
        prepared = side.launcher.prepare_command(command, _devices(side), topology.node_count)
        return probed_run.start(
            prepared,
            command,
            slowdown=side.slowdown,
            figures=FigureLines([figure for figure in plan.also if figure.is_read], may_lack=side.may_lack_figures),
            phase=self._observer.phase,
            notice=self._observer.notice,
            watch_memory=memory.of_children if has_peak else None,
            beside=beside,
        )

    @contextmanager
    def _program(self, side: Side, plan: Plan) -> Iterator[CommandWindows]:
        """Start a user's command, and read until it has warmed up."""
        command, topology, devices = side.workload, side.topology, _devices(side)
        assert isinstance(command, Command), "a workload has a job"
        has_peak = topology.node_count == 1 and any(figure.name == PEAK_MEMORY for figure in plan.also)
        peak_memory = None
        with ExitStack() as opened:
            if has_peak and topology.gpus:
                peak_memory = opened.enter_context(memory.on_gpus(topology.gpus))
            beside = Beside(side.launcher.prepare_command(command, devices, topology.node_count))
            prepared = beside.prepared
            program = opened.enter_context(closing(CommandRun(prepared)))
            opened.enter_context(prepared.proof(program.pid))
            if has_peak and not topology.gpus:
                peak_memory = opened.enter_context(memory.of_children(program.pid))
            elif peak_memory is not None:
                peak_memory = opened.enter_context(memory.refusing_preallocation(peak_memory, program.pid))
            is_timed_whole = command.reads is not None and command.reads.examples is not None
            self._observer.phase("its whole run" if is_timed_whole else "first reading")
            windows = CommandWindows(
                program,
                command,
                devices=devices.count * topology.node_count,
                slowdown=side.slowdown,
                also=plan.also,
                may_lack_figures=side.may_lack_figures,
                peak_memory=peak_memory,
                confirms=beside.confirms,
                notice=self._observer.notice,
            )
            windows.warm_up(plan)
            self._observer.phase("readings")
            yield windows

    def pair(
        self,
        a: Side,
        b: Side,
        plan: Plan,
        *,
        labels: Mapping[str, str],
        b_first: bool = False,
        profiled: bool = False,
    ) -> Pair:
        """Run both sides in two workers at once, their windows interleaved; the ratio is b / a.

        Only for workloads that `can_interleave_windows`, on the same devices. `labels` name the runs of "a" and "b" for
        the observer.

        Raises:
            as `run`.
        """
        sides = {"a": a, "b": b}
        for side in (a, b):
            if isinstance(side.workload, Workload):
                self._job(side, plan)  # so that no worker is started if one of them can't be trained
        training: dict[str, TrainingRun] = {}
        devices = _devices(a)
        before = self._guard.before(devices.gpu_uuids) if self._sampled else None
        with self._named(a, b), ExitStack() as workers:
            for name in ("b", "a") if b_first else ("a", "b"):
                self._observer.begin(labels[name])
                beside = next(iter(training.values()), None)
                training[name] = workers.enter_context(closing(self._training(sides[name], plan, beside)))
                if reason := training[name].why_not_held:
                    raise OneAtATime(reason)
                training[name].hold()
            self._observer.begin("pair")
            with self._watching(devices, is_watched=self._sampled) as observation:
                pair = interleave(training["a"], training["b"], plan, self._observer.phase, b_first=b_first)
            runs = {"a": pair.a, "b": pair.b}
            for name, run in runs.items():
                run = observation.of(with_figures(run, training[name], plan), before)
                runs[name] = self._profiled(sides[name], training[name], plan, run) if profiled else run
            return replace(pair, a=runs["a"], b=runs["b"])

    def rate_on_device_data(self, side: Side, plan: Plan, runs: Sequence[Run]) -> float | None:
        """Return images/s of the same training on device data; None if the steps of `runs` did not fetch their data.

        Also None if the run fails: the verdict does not depend on it.
        """
        profiles = [run.step_profile for run in runs]
        fetched = any(profile is not None and profile.input is Input.FETCHED for profile in profiles)
        if not fetched or isinstance(side.workload, Command):
            return None
        resident = replace(side, workload=side.workload.with_(input_pipeline="device"))
        brief = replace(plan, max_seconds=min(plan.max_seconds, BREAKDOWN_SECONDS), also=())
        try:
            return run_value(self.run(resident, brief, label="on device data")).examples_per_sec
        except (TfperfError, OSError):
            return None

    def trace(self, side: Side, plan: Plan, steps: int) -> tuple[Trace, ...]:
        """Run this many steps of a fresh worker or program under its profiler, after the plan's warm-up.

        A failure is the fault of the trace: no verdict depends on it.
        """
        self._observer.begin("profile")
        try:
            with closing(self._training(side, replace(plan, also=()))) as training:
                self._observer.phase("warm-up")
                training.request(max(1, plan.warmup_steps))
                training.receive()
                self._observer.phase("profile")
                return training.trace(steps)
        except (TfperfError, OSError) as error:
            fault = error.brief if isinstance(error, MeasurementError) else str(error)
            return (Trace(host="", steps=steps, ops=(), fault=fault),)
        finally:
            self._observer.done()

    def _watching(
        self, devices: Devices, pids: Collection[int] = (), *, is_watched: bool
    ) -> AbstractContextManager[Observation]:
        return self._guard.watching(devices.gpu_uuids, pids) if is_watched else nullcontext(Observation())

    def _job(self, side: Side, plan: Plan) -> Job:
        workload, topology = side.workload, side.topology
        assert isinstance(workload, Workload), "a command has no job"
        catalogue.check(workload)
        catalogue.require_trainable(workload, topology)
        if (data := catalogue.data_set_of(workload.input_pipeline)) is not None:
            shards(self._data_dir, data)
        figures = [figure.name for figure in plan.also]
        return Job(
            workload=workload,
            devices=_devices(side),
            nodes=topology.node_count,
            slowdown=side.slowdown,
            data_dir=self._data_dir,
            cores=topology.host.usable_cores,
            names=catalogue.registered(),
            cold_caches=FIRST_STEP in figures,
            counts_traces=COMPILATIONS in figures,
        )

    def _profiled(self, side: Side, training: TrainingRun, plan: Plan, run: Run) -> Run:
        if isinstance(side.workload, Command):
            return run
        job = self._job(side, plan)
        self._observer.phase("step profile")
        profiler = self._profilers.setdefault(side.launcher, StepProfiler())
        return replace(run, step_profile=profiler.profile(training, job, run_value(run).examples_per_sec))

    @contextmanager
    def _named(self, *sides: Side) -> Iterator[None]:
        """Put workload and devices before a worker's error, and remove the progress line at the end."""
        try:
            yield
        except MeasurementError as error:
            names = " against ".join(dict.fromkeys(side.shown for side in sides))
            topology = sides[0].topology
            where = f"{names} on {topology.describe()}"
            if isinstance(error, OutOfMemory):
                uuids = topology.devices.gpu_uuids if topology.devices else ()
                held = memory.held(uuids) if uuids else ()
                raise explained(error, where, topology, *(side.workload for side in sides), held=held) from error
            raise error.at(where) from error
        finally:
            self._observer.done()


def _devices(side: Side) -> Devices:
    assert side.topology.devices is not None, "the fixture has refused a topology without devices taken"
    return side.topology.devices


def explained(
    error: OutOfMemory, where: str, topology: Topology, *workloads: Subject, held: Sequence[memory.Held] = ()
) -> OutOfMemory:
    """Return the out-of-memory error of a worker or a program, with the batch size and the memory before it.

    A program's batch size is not known. `held` is the memory of the GPUs that is in use now, without our workers.
    """
    others = [line for each in held for line in _held(each)]
    batches = " and ".join(dict.fromkeys(str(work.batch_size) for work in workloads if isinstance(work, Workload)))
    batch = f" with batch_size {batches}" if batches else ""
    each = f" on each of {topology.devices.count} devices" if topology.devices and topology.devices.count > 1 else ""
    return OutOfMemory(
        f"out of memory{batch}{each}",
        Line(_memory(topology), "memory"),
        *others,
        Line(
            "end the processes that hold the GPU's memory, or choose another GPU with CUDA_VISIBLE_DEVICES"
            if others
            else f"use a smaller {'batch_size' if batches else 'batch'}, or a machine with more memory",
            "next",
        ),
        error.text,
        *error.below,
        where=where,
    )


def _memory(topology: Topology) -> str:
    """Return the machine's memory, used or not: "15.9 GiB + 15.9 GiB of the GPUs; 62.7 GiB of the host"."""
    import resource  # not at the top: Windows has none, and tests there import our types

    host = f"{size(topology.host.memory_bytes)} of the host"
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        host += f", limited to {size(limit)} for each process (ulimit -v)"
    if not topology.gpus:
        return host
    split = f", split into {topology.devices.count}" if topology.devices and topology.devices.split else ""
    return " + ".join(size(gpu.memory_bytes) for gpu in topology.gpus) + f" of the GPUs{split}; {host}"


_HELD_FRACTION = 0.1  # a driver and a desktop keep less


def _held(gpu: memory.Held) -> Iterator[Line]:
    """Yield a line about the memory that others hold, where it is more than a tenth of the GPU's."""
    if gpu.used_bytes <= _HELD_FRACTION * gpu.total_bytes:
        return
    sizes = sorted(gpu.processes.items(), key=lambda item: -(item[1] or 0))
    names = ", ".join(name if used is None else f"{name} {size(used)}" for name, used in sizes)
    who = names or "processes that can't be seen here (in a container: docker run --pid=host)"
    yield Line(f"{size(gpu.used_bytes)} of {size(gpu.total_bytes)} on {gpu.uuid} are in use by {who}", "held")
