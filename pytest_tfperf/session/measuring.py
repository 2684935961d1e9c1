"""What a session measures with: the launchers of its sides, the task of each call, and what runs and judges them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_tfperf.bench.bench import Bench
from pytest_tfperf.bench.controls import Controls
from pytest_tfperf.bench.disturbance_guard import DisturbanceGuard
from pytest_tfperf.bench.other_side import OtherSide
from pytest_tfperf.bench.run_engine import RunEngine, Side
from pytest_tfperf.bench.task import Task
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.run import Observer, Plan
from pytest_tfperf.core.selection import Selection
from pytest_tfperf.core.settings import Settings, WorkerStart
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.judging.reference import floor_rate, memory_rate, reference_for
from pytest_tfperf.revisions.checkout_launcher import CheckoutLauncher
from pytest_tfperf.revisions.git import commit_of
from pytest_tfperf.session.feature_hooks import features
from pytest_tfperf.session.session_judge import SessionJudge
from pytest_tfperf.session.this_machine import EarlierSessions, ThisMachine
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import Launcher, Nodes, References
from pytest_tfperf.workers.local import LocalLauncher

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import History


class Launchers:
    """The launchers of one session; each is made when it is first needed.

    Args:
        settings: what the user asked for.
        selection: the session's tests.
        nodes: what starts tests on several nodes; None: this machine's own processes stand for nodes.
        say: shows a line at once.
    """

    def __init__(
        self, settings: Settings, selection: Selection, nodes: Nodes | None, say: Callable[[str], None]
    ) -> None:
        self._say = say
        self._settings = settings
        self._selection = selection
        self._nodes = nodes
        self._opened = ExitStack()

    def close(self) -> None:
        """End all workers."""
        self._opened.close()

    @cached_property
    def here(self) -> Launcher:
        """Starts workers under this Python."""
        return self._launcher(Interpreter(sys.executable))

    @cached_property
    def other_side(self) -> OtherSide | None:
        """What each check is compared with; None where baselines judge."""
        known = {"settings": self._settings, "selection": self._selection, "say": self._say, "opened": self._opened}
        other: OtherSide | None = features().ask("other_side", **known)
        return other

    @cached_property
    def compared(self) -> tuple[Launcher, Launcher]:
        """What starts the workers of the other side (a) and of this one (b)."""
        assert self.other_side is not None, "asked for only where checks are compared"
        return self.other_side.launchers(self.here, self._launcher)

    @property
    def remarks(self) -> list[str]:
        """What may set the two sides apart beside what is compared, in sentences; known when tests have run."""
        sides = self.compared if self.other_side is not None else ()
        return [remark for side in sides if isinstance(side, CheckoutLauncher) for remark in side.own_code.remarks]

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
        self._opened.callback(local.close)
        return local if self._nodes is None else self._nodes.launcher(local, interpreter)


class TaskMaker:
    """Makes tasks.

    Args:
        settings: what the user asked for.
        launchers: start this side, and the reference environments.
        baselines: the files that results are judged against.
        earlier: stand in for them where a test has no row.
    """

    def __init__(
        self, settings: Settings, launchers: Launchers, baselines: BaselineStore, earlier: EarlierSessions
    ) -> None:
        self._settings = settings
        self._launchers = launchers
        self._baselines = baselines
        self._earlier = earlier

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
        settings, references = self._settings, self._launchers.references
        key = Key(workload.id, topology.shape)
        rows, published = self._baselines.load(topology.machine), self._baselines.published_like(key)
        # The nightly gate requires rows, so nothing stands in for one.
        is_provisional = key not in rows and not settings.require_baseline
        reference = reference_for(
            rows,
            published,
            topology.machine,
            key,
            gpu_fp32_tflops=floor_rate(topology),
            gpu_memory_gb_per_sec=memory_rate(topology),
            provisional=self._earlier.provisional_baselines(topology) if is_provisional else {},
        )
        may_move = not isinstance(workload, Command) or workload.runs_this_python
        may_move = may_move and reference.is_own_row
        other = references.launcher_for(reference.baseline) if references and may_move else None
        return Task(
            test=test,
            index=index,
            topology=topology,
            plan=plan,
            side=Side(workload=workload, launcher=self._launchers.here, slowdown=settings.inject_slowdown, name=name),
            reference_side=None if other is None else Side(workload=workload, launcher=other, name=name),
            reference=reference,
            tolerance=reference.tolerance(tolerance, Tolerance.of(settings.tolerance)),
        )


class Measuring:
    """The parts that take and judge measurements, one set for a session.

    Args:
        settings: what the user asked for.
        session: the session's id.
        selection: the session's tests.
        baselines, history: what they are judged by.
        observer: is told how each run progresses.
        nodes: what starts tests on several nodes; None: this machine's own processes stand for nodes.
        say: shows a line at once.

    Attributes:
        machine: what is measured on.
        launchers: what starts training.
        tasks: makes the task of each call.
        engine: takes every run of the session.
        controls: run beside a recording of few rows.
        judge: judges the session as a whole.
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
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._session = session
        self._history = history
        self._earlier = EarlierSessions(history, session)
        self.machine = ThisMachine(settings, selection, nodes)
        self.launchers = Launchers(settings, selection, nodes, say)
        self.tasks = TaskMaker(settings, self.launchers, baselines, self._earlier)
        guard = DisturbanceGuard(settings.disturbance_limits)
        self.engine = RunEngine(
            observer,
            guard,
            str(settings.data_dir or ""),
            sampled=not settings.smoke,
            warm_up_seconds=settings.gpu_warmup,
        )
        self.controls = Controls(
            self.engine,
            baselines.load,
            self.machine.runnable_on,
            Plan(steps=settings.steps, warmup_steps=settings.warmup_steps, max_seconds=settings.max_time),
        )
        self.judge = SessionJudge(settings, session, self.machine, self.engine, baselines, self._earlier, history)

    @cached_property
    def bench(self) -> Bench:
        """Measures and judges tasks; made when it is first needed, because it asks git and the features."""
        settings = self._settings
        commit = commit_of(settings.root, besides=settings.baselines)
        profiler = features().ask("profiler", settings=settings, engine=self.engine, history=self._history)
        return Bench(self.engine, self.judge.machine_session, profiler=profiler, session=self._session, commit=commit)

    @property
    def history_fault(self) -> str:
        """Why earlier sessions could not be read, or verdicts not be kept; "" if nothing was in the way."""
        return self.judge.history_fault or self._earlier.history_fault

    def close(self) -> None:
        """End all workers."""
        self.launchers.close()
