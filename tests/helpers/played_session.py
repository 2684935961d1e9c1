"""A session whose tests are measured on one machine, with workers that play a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pytest_tfperf.bench.bench import Bench
from pytest_tfperf.bench.machine_session import MachineSession
from pytest_tfperf.bench.run_engine import RunEngine, Side
from pytest_tfperf.bench.task import Profiler, Task
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.disturbance import Disturbance
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.profile import Trace
from pytest_tfperf.core.run import Plan
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.judging.target import target_for
from pytest_tfperf.workers.training_run import TrainingRun
from tests.helpers.measurements import baseline
from tests.helpers.played import BOX, PLAN, TRIVIAL, Notes, PlayedGuard, PlayedLauncher, PlayedRun

ROW = baseline(100.0, key=Key(TRIVIAL.id, BOX.shape))
"""The trivial workload's baseline."""


class PlayedPrograms(RunEngine):
    """Takes workers that play a script for programs of PyTorch, and profiles them so."""

    environment: ClassVar[Mapping[str, str]] = {"torch": "2.13.0"}

    def trace_of(self, run: PlayedRun, steps: int) -> Trace:
        return PlayedRun.trace(run, steps)[0]

    def _training(self, side: Side, plan: Plan, beside: TrainingRun | None = None) -> Any:
        run = side.launcher.start(None, self._observer.phase)  # type: ignore[arg-type]  # a program has no job
        run.environment = self.environment
        run.trace = lambda steps: (self.trace_of(run, steps),)  # type: ignore[method-assign]
        return run


class PlayedSession:
    """A bench, the machine that it measures on, and the tasks for it.

    Args:
        disturbances: of the runs, in order; later runs are not disturbed.
        tests: how many tests with a baseline the session has.
        row: the machine's only baseline.
        profiler: the bench's.
        figure_rows: the machine's baselines of figures.
        engine: what takes its runs.
    """

    def __init__(
        self,
        *disturbances: Disturbance | None,
        tests: int = 1,
        row: Baseline | None = ROW,
        profiler: Profiler | None = None,
        figure_rows: Sequence[Baseline] = (),
        engine: type[RunEngine] = RunEngine,
    ) -> None:
        self._rows = {} if row is None else {row.key: row}
        self.notes = Notes()
        self.machine = MachineSession(self._rows, {}, tests=tests, figure_rows={one.key: one for one in figure_rows})
        self.engine = engine(self.notes, PlayedGuard(list(disturbances)), warm_up_seconds=0.0)
        self.bench = Bench(self.engine, lambda _: self.machine, profiler=profiler, session="today")

    def task(
        self,
        launcher: PlayedLauncher,
        reference: PlayedLauncher | None = None,
        *,
        test: str = "a.py::test",
        topology: Topology = BOX,
        **workload: Any,
    ) -> Task:
        side = Side(workload=TRIVIAL.with_(**workload), topology=topology, launcher=launcher)
        key = Key(side.workload.id, topology.shape)
        return Task(
            test=test,
            plan=PLAN,
            side=side,
            target=target_for(self._rows, [], topology.machine, key, gpu_fp32_tflops=None),
            tolerance=Tolerance(),
            reference_environment=None if reference is None else replace(side, launcher=reference),
        )

    def decided(self, task: Task) -> Measurement:
        """As a session does: the task again until it is decided."""
        found = self.bench.check(task)
        while not found.is_decided:
            found = self.bench.check(task, found)
        return found
