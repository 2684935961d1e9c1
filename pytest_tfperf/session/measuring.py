"""What a session measures with: the machine, the launchers, the bench, and what its tests are judged against."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_tfperf.bench.bench import Bench
from pytest_tfperf.bench.disturbance import DisturbanceGuard
from pytest_tfperf.bench.machine_session import MachineSession
from pytest_tfperf.bench.one_run import RunEngine, Side
from pytest_tfperf.bench.rerun_queue import Result
from pytest_tfperf.bench.session_verdicts import session_verdicts
from pytest_tfperf.bench.task import Task
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import EarlierMeasurement, PastSession
from pytest_tfperf.core.run import Observer, Plan
from pytest_tfperf.core.selection import SelectedTest, Selection
from pytest_tfperf.core.session_verdicts import SessionVerdict
from pytest_tfperf.core.settings import Settings, WorkerStart
from pytest_tfperf.core.topology import LOCAL_LINK, Topology
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.hardware.discovery import discover
from pytest_tfperf.judging.provisional import MOST_MEASUREMENTS, provisional_baselines
from pytest_tfperf.judging.reference import floor_rate, reference_for
from pytest_tfperf.session.features import features
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.workers.git_worktree import commit_of
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import Launcher, Nodes, References
from pytest_tfperf.workers.local import LocalLauncher

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import History

MOST_LOCAL_NODES = 64
"""Processes of this machine that may stand for nodes: each takes about 400 MB and a thread for each device."""


class Measuring:
    """The parts that take and judge measurements, one set for a session; each is made when it is first needed.

    Args:
        settings: what the user asked for.
        session: the session's id.
        selection: the session's tests.
        baselines, history: what they are judged by.
        observer: is told how each run progresses.
        nodes: what starts tests on several nodes; None: this machine's own processes stand for nodes.

    Attributes:
        history_fault: why earlier sessions could not be read; "" where they could.
    """

    def __init__(
        self,
        settings: Settings,
        session: str,
        selection: Selection,
        baselines: BaselineStore,
        history: History,
        observer: Observer,
        nodes: Nodes | None = None,
    ) -> None:
        self._settings = settings
        self._session = session
        self._selection = selection
        self._baselines = baselines
        self._history = history
        self._observer = observer
        self._nodes = nodes
        self._machines: dict[str, MachineSession] = {}
        self._earlier: dict[tuple[str, str], Mapping[Key, Baseline]] = {}
        self._launchers = ExitStack()
        self.history_fault = ""

    def close(self) -> None:
        """End all workers."""
        self._launchers.close()

    # The machine

    @cached_property
    def topology(self) -> Topology:
        """The machine, discovered once."""
        found, nodes = replace(discover(), machine_name=self._settings.machine), self._nodes
        if nodes is None:
            return replace(found, most_nodes=MOST_LOCAL_NODES, node_link=LOCAL_LINK)
        return replace(found, most_nodes=nodes.most_nodes, node_link=nodes.link)

    def topology_for(self, *, cpu: bool, gpu: bool) -> Topology:
        """What a test with these marks takes devices from: CPUs where it is marked `cpu` and GPUs don't serve it."""
        machine, name = self.topology, self._settings.machine
        if cpu and not (gpu and machine.gpus):
            return replace(machine.on_cpu(), machine_name=f"{name}-cpu" if name and machine.gpus else name)
        return machine.split() if self._settings.split_gpu and machine.gpus else machine

    @property
    def machine_names(self) -> list[str]:
        """The machines whose baselines the selected tests use: a host's CPUs and its GPUs are two."""
        return sorted({self.topology_for(cpu=cpu, gpu=gpu).machine for cpu, gpu in self._selection.marks})

    @property
    def runnable(self) -> list[SelectedTest]:
        """The selected tests that can run here."""
        has_data = self._settings.data_dir is not None
        return self._selection.runnable(has_gpus=bool(self.topology.gpus), has_data=has_data)

    # What starts training

    @cached_property
    def launcher(self) -> Launcher:
        """Starts workers under this Python."""
        return self._launcher(Interpreter(sys.executable))

    @cached_property
    def other_launcher(self) -> Launcher | None:
        """Starts workers under the Python that each check is compared with; None where baselines judge."""
        other: Interpreter | None = features().ask("other_side", settings=self._settings)
        return None if other is None else self._launcher(other)

    @property
    def compared_with(self) -> str:
        """The Python that each check is compared with, as the header shows it; "" where baselines judge."""
        other: Interpreter | None = features().ask("other_side", settings=self._settings)
        return "" if other is None else other.python

    @cached_property
    def references(self) -> References | None:
        """The reference environments that suspected slowdowns are confirmed in."""
        found: References | None = features().ask("references", settings=self._settings, launch=self._launcher)
        return found

    def _launcher(self, interpreter: Interpreter) -> Launcher:
        settings = self._settings
        local = LocalLauncher(
            logs=settings.dir / "logs",
            silence_seconds=settings.timeout,
            fresh=settings.worker is WorkerStart.FRESH,
            interpreter=interpreter,
        )
        self._launchers.callback(local.close)
        return local if self._nodes is None else self._nodes.launcher(local, interpreter)

    # What takes runs and judges them

    @cached_property
    def engine(self) -> RunEngine:
        """Takes every run of the session."""
        guard = DisturbanceGuard(self._settings.disturbance_limits)
        data_dir = str(self._settings.data_dir or "")
        return RunEngine(self._observer, guard, data_dir, sampled=not self._settings.smoke)

    @cached_property
    def bench(self) -> Bench:
        """Measures and judges tasks."""
        commit = commit_of(self._settings.root, besides=self._settings.baselines)
        profiler = features().ask("profiler", settings=self._settings, engine=self.engine, history=self._history)
        return Bench(self.engine, self._machine_session, profiler=profiler, session=self._session, commit=commit)

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
        """The task of one call: everything that a measurement needs.

        Args:
            test: pytest's node id.
            index: which of the test's calls it is, from 0.
            workload, topology, plan: what to measure.
            tolerance: the test's own; None for the row's, or the default.
            name: what messages call the workload; "" for its id.

        Raises:
            BaselineError: the machine's file can't be read whole.
        """
        key = Key(workload.id, topology.shape)
        rows, published = self._baselines.load(topology.machine), self._baselines.published_like(key)
        reference = reference_for(
            rows,
            published,
            topology.machine,
            key,
            gpu_fp32_tflops=floor_rate(topology),
            provisional={} if key in rows else self._provisional(topology),
        )
        may_move = not isinstance(workload, Command) or workload.runs_this_python
        may_move = may_move and reference.is_own_row
        other = self.references.launcher_for(reference.baseline) if self.references and may_move else None
        return Task(
            test=test,
            index=index,
            topology=topology,
            plan=plan,
            side=Side(workload=workload, launcher=self.launcher, slowdown=self._settings.inject_slowdown, name=name),
            reference_side=None if other is None else Side(workload=workload, launcher=other, name=name),
            reference=reference,
            tolerance=reference.tolerance(tolerance, Tolerance.of(self._settings.tolerance)),
        )

    def session_verdicts(self, results: Iterable[Result]) -> Iterator[SessionVerdict]:
        """Judge software and machine as a whole, from the results of all tests; may take further runs."""
        measurements = [result for result in results if isinstance(result, Measurement)]
        tolerance = Tolerance.of(self._settings.tolerance)
        for name, machine in self._machines.items():
            measured = [one for one in measurements if one.machine == name]
            turn = machine.sessions_before
            software, hardware = session_verdicts(machine, self.engine, measured, tolerance, turn=turn)
            if software is not None:
                yield SessionVerdict.of(software, name, measured)
            if hardware is not None:
                yield SessionVerdict.of(hardware, name, measured)

    @property
    def reference_failures(self) -> list[tuple[str, str]]:
        """The tests whose workload failed in its reference environment, each with the reason."""
        failures = [machine.reference_failures for machine in self._machines.values()]
        return [(test, why) for calls in failures for (test, _), why in calls.items()]

    def _machine_session(self, topology: Topology) -> MachineSession:
        name = topology.machine
        if name not in self._machines:
            rows = self._baselines.load(name)
            tests = min(len(self.runnable), sum(row.is_measured for row in rows.values()))
            self._machines[name] = MachineSession(
                rows,
                self._past_sessions(rows.values()),
                tests=tests,
                unrecorded=max(1, len(self.runnable) - tests),
                hold=self._settings.hold,
            )
        return self._machines[name]

    def _provisional(self, topology: Topology) -> Mapping[Key, Baseline]:
        """Baselines from earlier sessions, for tests without a row; none for the nightly gate, which requires rows."""
        if self._settings.require_baseline:
            return {}
        name, gpu = topology.machine, topology.gpus[0].name if topology.gpus else ""
        if (name, gpu) not in self._earlier:
            self._earlier[name, gpu] = provisional_baselines(name, self._earlier_measurements(name), gpu=gpu)
        return self._earlier[name, gpu]

    def _earlier_measurements(self, machine: str) -> Mapping[Key, Sequence[EarlierMeasurement]]:
        """Empty if the history can't be read: such tests then have no baseline."""
        try:
            return self._history.earlier_measurements(machine, before=self._session, most=MOST_MEASUREMENTS)
        except TfperfError as error:
            self.history_fault = str(error)
            return {}

    def _past_sessions(self, rows: Iterable[Baseline]) -> Mapping[Key, tuple[PastSession, ...]]:
        """Empty if the history can't be read: the session is then judged by itself."""
        least = math.ceil(len(self.runnable) / 2)
        try:
            return self._history.past_sessions_of_machine(rows, before=self._session, least_tests=least)
        except TfperfError as error:
            self.history_fault = str(error)
            return {}
