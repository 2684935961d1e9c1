"""The parts that take and judge a session's measurements, and the task of each call."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cached_property

from pytest_tfperf.bench.bench import Bench
from pytest_tfperf.bench.controls import Controls
from pytest_tfperf.bench.disturbance_guard import DisturbanceGuard
from pytest_tfperf.bench.other_side import OtherSide
from pytest_tfperf.bench.run_engine import RunEngine, Side
from pytest_tfperf.bench.session import Session
from pytest_tfperf.bench.task import Task
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.run import Plan
from pytest_tfperf.core.settings import WorkerStart
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.judging.target import floor_rate, memory_rate, target_for
from pytest_tfperf.revisions.git import commit_of
from pytest_tfperf.session.earlier_sessions import EarlierSessions
from pytest_tfperf.session.feature_hooks import features, first
from pytest_tfperf.session.session_judge import SessionJudge
from pytest_tfperf.session.this_machine import ThisMachine
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import Launcher, Nodes, ReferenceEnvironments
from pytest_tfperf.workers.local import LocalLauncher


class Launchers:
    """The launchers of one session; each is made when it is first needed, and ends its workers with the session.

    Args:
        context: the session's.
        nodes: starts tests on several nodes; None: processes of this machine stand for nodes.
    """

    def __init__(self, context: Session, nodes: Nodes | None) -> None:
        self._context = context
        self._nodes = nodes

    @cached_property
    def here(self) -> Launcher:
        """Starts workers under this Python."""
        return self._launcher(Interpreter(sys.executable))

    @cached_property
    def other_side(self) -> OtherSide | None:
        """The other side of each check; None where baselines judge."""
        hooks = features().hooks(self._context.settings, lambda feature: feature.other_side)
        return first(make(self._context) for make in hooks)

    @cached_property
    def compared(self) -> tuple[Launcher, Launcher]:
        """The launchers of the other side (a) and of this one (b)."""
        assert self.other_side is not None, "asked for only where checks are compared"
        return self.other_side.launchers(self.here, self._launcher)

    @cached_property
    def references(self) -> ReferenceEnvironments | None:
        """The reference environments that suspected slowdowns are confirmed in."""
        settings = self._context.settings
        hooks = features().hooks(settings, lambda feature: feature.references)
        return first(make(settings, self._launcher) for make in hooks)

    def _launcher(self, interpreter: Interpreter) -> Launcher:
        settings = self._context.settings
        local = LocalLauncher(
            logs=settings.dir / "logs",
            silence_seconds=settings.timeout,
            fresh=settings.worker is WorkerStart.FRESH,
            interpreter=interpreter,
        )
        self._context.opened.callback(local.close)
        return local if self._nodes is None else self._nodes.launcher(local, interpreter)


class Measuring:
    """The parts that take and judge measurements, one set for a session.

    Args:
        context: the session's.
        nodes: starts tests on several nodes; None: processes of this machine stand for nodes.

    Attributes:
        machine: the machine that it measures on.
        launchers: start training.
        engine: takes every run of the session.
    """

    def __init__(self, context: Session, nodes: Nodes | None = None) -> None:
        self._context = context
        self.machine = ThisMachine(context, nodes)
        self.launchers = Launchers(context, nodes)
        settings = context.settings
        self.engine = RunEngine(
            context.progress,
            DisturbanceGuard(settings.disturbance_limits),
            str(settings.data_dir or ""),
            sampled=not settings.smoke,
            warm_up_seconds=settings.gpu_warmup,
        )

    @cached_property
    def earlier(self) -> EarlierSessions:
        """The sessions before this one."""
        return EarlierSessions(self._context, self.machine)

    @cached_property
    def judge(self) -> SessionJudge:
        """Judges the session as a whole."""
        return SessionJudge(self._context, self.machine, self.engine, self.earlier)

    @cached_property
    def controls(self) -> Controls:
        """Control runs beside a recording of few rows."""
        settings = self._context.settings
        return Controls(self.engine, self._context.baselines.load, self.machine.runnable_on, settings.plan())

    @cached_property
    def bench(self) -> Bench:
        """Measures and judges tasks; made when it is first needed, because it asks git and the features."""
        context, settings = self._context, self._context.settings
        commit = commit_of(settings.root, besides=settings.baselines)
        hooks = features().hooks(settings, lambda feature: feature.profiler)
        profiler = first(make(context, self.engine) for make in hooks)
        return Bench(self.engine, self.judge.machine_session, profiler=profiler, session=context.id, commit=commit)

    @cached_property
    def has_rows(self) -> bool:
        """Whether any baseline of this machine is recorded; files that can't be read have none."""
        with suppress(TfperfError):
            return any(self._context.baselines.load(machine) for machine in self.machine.names)
        return False

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
            index: the call's index in its test, from 0.
            workload, topology, plan: what to measure.
            tolerance: the test's own; None for the row's, or the default.
            name: the workload's name in messages; "" for its id.

        Raises:
            BaselineError: the machine's file can't be read whole.
        """
        settings, baselines, references = self._context.settings, self._context.baselines, self.launchers.references
        key = Key(workload.id, topology.shape)
        rows, published = baselines.load(topology.machine), baselines.published(key)
        # The nightly gate requires rows, so nothing stands in for one.
        is_provisional = key not in rows and not settings.require_baseline
        target = target_for(
            rows,
            published,
            topology.machine,
            key,
            gpu_fp32_tflops=floor_rate(topology),
            gpu_memory_gb_per_sec=memory_rate(topology),
            provisional=self.earlier.provisional_baselines(topology) if is_provisional else {},
        )
        # A comparison measures alone what the other side lacks; an end that has come must not fail that.
        known = () if self.launchers.other_side else self._context.acknowledgements
        may_move = not isinstance(workload, Command) or workload.runs_this_python
        may_move = may_move and target.is_own_row
        other = references.launcher_for(target.baseline) if references and may_move else None
        losses = [loss for loss in known if loss.is_of(topology.machine, test, key)]
        return Task(
            test=test,
            index=index,
            topology=topology,
            plan=plan,
            side=Side(workload=workload, launcher=self.launchers.here, slowdown=settings.slowdown_of(test), name=name),
            reference_environment=None if other is None else Side(workload=workload, launcher=other, name=name),
            target=target,
            tolerance=target.tolerance(tolerance, Tolerance.of(settings.tolerance)),
            acknowledged={loss.figure: loss for loss in losses},
        )
