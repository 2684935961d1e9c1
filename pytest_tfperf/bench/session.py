"""What a session measures with, as one value that its parts and the features share."""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Final

from pytest_tfperf.bench.bench import Bench
from pytest_tfperf.bench.comparing import OtherSide
from pytest_tfperf.bench.disturbance_guard import DisturbanceGuard
from pytest_tfperf.bench.feature import Feature, first
from pytest_tfperf.bench.machine_session import MachineSession
from pytest_tfperf.bench.recording import Controls
from pytest_tfperf.bench.run_engine import RunEngine, Side
from pytest_tfperf.bench.task import Task
from pytest_tfperf.core.acknowledgement import Acknowledgement
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.measurement import InvalidMeasurement, Measurement
from pytest_tfperf.core.past import moment
from pytest_tfperf.core.run import Plan
from pytest_tfperf.core.selection import SelectedTest
from pytest_tfperf.core.settings import Settings, WorkerStart
from pytest_tfperf.core.topology import LOCAL_LINK, Topology
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.hardware.discovery import discover
from pytest_tfperf.judging.target import MOST_MEASUREMENTS, peak_rates, provisional_baselines, target_for
from pytest_tfperf.reports.progress_line import ProgressLine
from pytest_tfperf.revisions.git import commit_of
from pytest_tfperf.stores import acknowledgements
from pytest_tfperf.stores.baseline_file import BaselineStore
from pytest_tfperf.stores.history import History
from pytest_tfperf.workers.launcher import Launcher, Nodes, ReferenceEnvironments
from pytest_tfperf.workers.local import LocalLauncher
from pytest_tfperf.workers.processes import Interpreter

MOST_LOCAL_NODES: Final = 64
"""Processes of this machine that may stand for nodes: each takes about 400 MB and a thread for each device."""

_LATELY: Final = timedelta(days=14)


def _new_id() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Session:
    """The settings, tests, stores, machine, launchers and engine of a session; each part is made when first used."""

    settings: Settings
    features: Sequence[Feature] = ()  # those that take part
    nodes: Nodes | None = None  # starts tests on several nodes; None: processes of this machine stand for nodes
    selection: Mapping[str, SelectedTest] = field(default_factory=dict)  # by node id and in pytest's order
    collected: Collection[str] = ()  # the node ids of all tests in files that were collected whole, selected or not
    opened: ExitStack = field(default_factory=ExitStack)  # closed when the session ends
    id: str = field(default_factory=_new_id)  # marks its measurements
    history_faults: list[str] = field(default_factory=list)  # why the history could not be read or written
    machine_sessions: dict[str, MachineSession] = field(default_factory=dict)  # what a machine's tests share
    progress: ProgressLine = field(default_factory=ProgressLine)
    _provisional: dict[tuple[str, str], Mapping[Key, Baseline]] = field(default_factory=dict)

    # Stores

    @cached_property
    def baselines(self) -> BaselineStore:
        """The committed baselines."""
        return BaselineStore(self.settings.baselines)

    @cached_property
    def acknowledgements(self) -> tuple[Acknowledgement, ...]:
        """The losses that the team knows of, of all machines.

        Raises:
            TfperfError: their file can't be read whole.
        """
        return acknowledgements.read(self.settings.baselines)

    @cached_property
    def history(self) -> History:
        """The measurements of this session and of earlier ones."""
        return History(self.settings.dir / "history.sqlite")

    @contextmanager
    def noting_history_faults(self) -> Iterator[None]:
        """Go on without a history that can't be read or written; the summary says why."""
        try:
            yield
        except TfperfError as error:
            self.history_faults.append(str(error))

    # The machine

    @cached_property
    def topology(self) -> Topology:
        """The machine, discovered once."""
        nodes = self.nodes
        here = replace(discover(is_known=self._is_known), machine_name=self.settings.machine)
        if nodes is None:
            return replace(here, most_nodes=MOST_LOCAL_NODES, node_link=LOCAL_LINK)
        return replace(here, most_nodes=nodes.most_nodes, node_link=nodes.link)

    def _is_known(self, machine: str) -> bool:
        """Whether this machine has baselines, committed or of earlier sessions."""
        if machine in self.baselines.machines():
            return True
        with self.noting_history_faults():
            return any(self.history.earlier.earlier_measurements(machine, before=self.id, most=1))
        return False

    @property
    def is_discovered(self) -> bool:
        """Whether `topology` is known: a session that can't discover it has a summary, too."""
        return "topology" in self.__dict__

    def topology_for(self, *, cpu: bool, gpu: bool) -> Topology:
        """The devices for a test with these marks: those that its mark names; with both or neither what there is."""
        machine, name = self.topology, self.settings.machine
        # A driver that fails must not turn a test of GPUs into one of CPUs.
        has_no_gpu = not machine.gpus and not machine.driver_fault
        if has_no_gpu if cpu == gpu else cpu:
            return replace(machine.on_cpu(), machine_name=f"{name}-cpu" if name and machine.gpus else name)
        return machine.split() if self.settings.split_gpu and machine.gpus else machine

    @property
    def machines(self) -> list[str]:
        """The machines whose baselines the selected tests use: a host's CPUs and its GPUs are two."""
        marks = {(test.cpu, test.gpu) for test in self.selection.values()}
        return sorted({self.topology_for(cpu=cpu, gpu=gpu).machine for cpu, gpu in marks})

    @cached_property
    def has_rows(self) -> bool:
        """Whether any baseline of this machine is recorded; files that can't be read have none."""
        with suppress(TfperfError):
            return any(self.baselines.load(machine) for machine in self.machines)
        return False

    @property
    def runnable(self) -> list[SelectedTest]:
        """The selected tests that can run here."""
        has_gpus, has_data = bool(self.topology.gpus), self.settings.data_dir is not None
        return [
            test
            for test in self.selection.values()
            if not test.faults and (has_data or not test.reads_data) and (has_gpus or test.cpu or not test.gpu)
        ]

    def runnable_on(self, machine: str) -> int:
        """The number of runnable tests that use a machine's baselines.

        For several nodes all of them, because no mark tells which tests run there.
        """
        names = Counter(self.topology_for(cpu=test.cpu, gpu=test.gpu).machine for test in self.runnable)
        return names[machine] or names.total()

    def is_gone(self, test: str) -> bool:
        """Whether a test's file is gone, or was collected whole and has no such test."""
        file = test.partition("::")[0]
        if not (self.settings.root / file).exists():
            return True
        return test not in self.collected and any(other.partition("::")[0] == file for other in self.collected)

    # Launchers and engine

    def launcher(self, interpreter: Interpreter) -> Launcher:
        """Make a launcher of workers under a Python, which ends them with the session."""
        settings = self.settings
        local = LocalLauncher(
            logs=settings.dir / "logs",
            silence_seconds=settings.timeout,
            fresh=settings.worker is WorkerStart.FRESH,
            interpreter=interpreter,
        )
        self.opened.callback(local.close)
        return local if self.nodes is None else self.nodes.launcher(local, interpreter)

    @cached_property
    def here(self) -> Launcher:
        """Starts workers under this Python."""
        return self.launcher(Interpreter(sys.executable))

    @cached_property
    def other_side(self) -> OtherSide | None:
        """The other side of each check; None where baselines judge."""
        return first(feature.other_side(self) for feature in self.features)

    @cached_property
    def compared(self) -> tuple[Launcher, Launcher]:
        """The launchers of the other side (a) and of this one (b)."""
        assert self.other_side is not None, "asked for only where checks are compared"
        return self.other_side.launchers(self.here, self.launcher)

    @cached_property
    def references(self) -> ReferenceEnvironments | None:
        """The reference environments that suspected slowdowns are confirmed in."""
        return first(feature.references(self.settings, self.launcher) for feature in self.features)

    @cached_property
    def engine(self) -> RunEngine:
        """Takes every run of the session."""
        settings = self.settings
        return RunEngine(
            self.progress,
            DisturbanceGuard(settings.disturbance_limits),
            str(settings.data_dir or ""),
            sampled=not settings.smoke,
            warm_up_seconds=settings.gpu_warmup,
        )

    @cached_property
    def bench(self) -> Bench:
        """Measures and judges tasks; made when it is first needed, because it asks git and the features."""
        commit = commit_of(self.settings.root, besides=self.settings.baselines)
        profiler = first(feature.profiler(self) for feature in self.features)
        return Bench(self.engine, self.machine_session, profiler=profiler, session=self.id, commit=commit)

    @cached_property
    def controls(self) -> Controls:
        """Control runs beside a recording of few rows."""
        return Controls(self.engine, self.baselines.load, self.runnable_on, self.settings.plan())

    # Earlier sessions

    def machine_session(self, topology: Topology) -> MachineSession:
        """The baselines, earlier sessions and common drift of a topology's machine."""
        name = topology.machine
        if name not in self.machine_sessions:
            rows, runnable = self.baselines.load(name), self.runnable_on(name)
            tests, past = min(runnable, len(rows)), {}
            with self.noting_history_faults():  # sessions count that ran at least half as many tests as this one
                past = self.history.earlier.past_sessions_of_machine(
                    rows.values(), before=self.id, least_tests=math.ceil(runnable / 2)
                )
            self.machine_sessions[name] = MachineSession(
                rows,
                past,
                tests=tests,
                unrecorded=max(1, runnable - tests),
                figure_rows=self.baselines.figures(name),
            )
        return self.machine_sessions[name]

    def provisional_baselines(self, topology: Topology) -> Mapping[Key, Baseline]:
        """Baselines from earlier sessions, for tests without a row."""
        name, gpu = topology.machine, topology.gpus[0].name if topology.gpus else ""
        if (name, gpu) not in self._provisional:
            self._provisional[name, gpu] = {}
            with self.noting_history_faults():
                earlier = self.history.earlier.earlier_measurements(name, before=self.id, most=MOST_MEASUREMENTS)
                self._provisional[name, gpu] = provisional_baselines(name, earlier, gpu=gpu)
        return self._provisional[name, gpu]

    def measured_lately(self, tests: Iterable[str]) -> set[str]:
        """The tests that this host measured in its session before this one, or in the last two weeks."""
        with self.noting_history_faults():
            since = datetime.now(UTC) - _LATELY
            machines = {self.topology_for(cpu=cpu, gpu=not cpu).machine for cpu in (True, False)}
            for machine in machines:
                newest = self.history.newest_sessions(machine, alone_only=True)
                if (last := next((session for session, _ in newest if session != self.id), None)) is not None:
                    begin, _ = self.history.times_of(session=last, machine=machine)
                    since = min(since, moment(begin))
            return self.history.earlier.measured_since(tests, machines, since)
        return set()

    # Times only make estimates better, so a fault of the history is left to what needs it.

    @cached_property
    def run_seconds(self) -> Mapping[str, tuple[float, ...]]:
        """Seconds of the last runs of each runnable test beside no other side, newest first."""
        with suppress(TfperfError):
            return self.history.earlier.run_seconds([test.id for test in self.runnable])
        return {}

    @cached_property
    def seconds_of_interleaved(self) -> Mapping[str, float]:
        """Seconds of a run in the last interleaved measurement of each runnable test."""
        with suppress(TfperfError):
            return self.history.earlier.seconds_of_interleaved([test.id for test in self.runnable])
        return {}

    @cached_property
    def confirmations(self) -> tuple[int, int]:
        """The number of confirmation runs, and of the measurements among which they were."""
        with suppress(TfperfError):
            return self.history.earlier.confirmation_runs(self.machines)
        return 0, 0

    def checked(self, task: Task, earlier: Measurement | None = None) -> Measurement:
        """Measure and judge, as `Bench.check` does; then take the further runs that features ask for."""
        result = self.bench.check(task, earlier)
        with suppress(InvalidMeasurement):  # the machine stays busy, and the verdict stands without them
            while result.is_decided and any(feature.lacking_runs(self, result) > 0 for feature in self.features):
                result = self.bench.free_run(task, result)
        return result

    def task(
        self,
        test: str,
        index: int,
        workload: Subject,
        topology: Topology,
        tolerance: Tolerance | None,
        plan: Plan,
        name: str = "",
    ) -> Task:
        """The task of one call (from 0): everything that a measurement needs.

        `tolerance` is the test's own; None for the row's, or the default.

        Raises:
            BaselineError: the machine's file can't be read whole.
        """
        settings, references = self.settings, self.references
        key = Key(workload.id, topology.shape)
        rows, published = self.baselines.load(topology.machine), self.baselines.published(key)
        # The nightly gate requires rows, so nothing stands in for one.
        is_provisional = key not in rows and not settings.require_baseline
        fp32_tflops, memory_gb_per_sec = peak_rates(topology)
        target = target_for(
            rows,
            published,
            topology.machine,
            key,
            gpu_fp32_tflops=fp32_tflops,
            gpu_memory_gb_per_sec=memory_gb_per_sec,
            provisional=self.provisional_baselines(topology) if is_provisional else {},
        )
        # A comparison measures alone what the other side lacks; an end that has come must not fail that.
        known = () if self.other_side else self.acknowledgements
        may_move = target.is_own_row and (not isinstance(workload, Command) or workload.runs_this_python)
        other = references.launcher_for(target.baseline) if references and may_move else None
        side = Side(workload=workload, topology=topology, launcher=self.here, name=name)
        losses = [loss for loss in known if loss.is_of(topology.machine, test, key)]
        return Task(
            test=test,
            index=index,
            plan=plan,
            side=replace(side, slowdown=settings.slowdown_of(test)),
            reference_environment=None if other is None else replace(side, launcher=other),
            target=target,
            tolerance=target.tolerance(tolerance, Tolerance.of(settings.tolerance)),
            acknowledged={loss.figure: loss for loss in losses},
        )
