"""What a session measures with, put together."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pytest_tfperf.bench.bench import Bench
from pytest_tfperf.bench.disturbance import DisturbanceGuard
from pytest_tfperf.bench.one_run import RunEngine
from pytest_tfperf.core.run import Observer
from pytest_tfperf.core.selection import Selection
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.session.earlier_sessions import EarlierSessions
from pytest_tfperf.session.features import features
from pytest_tfperf.session.launchers import Launchers
from pytest_tfperf.session.session_judge import SessionJudge
from pytest_tfperf.session.tasks import TaskMaker
from pytest_tfperf.session.this_machine import ThisMachine
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.workers.git_worktree import commit_of
from pytest_tfperf.workers.launcher import Nodes

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import History


class Measuring:
    """The parts that take and judge measurements, one set for a session.

    Args:
        settings: what the user asked for.
        session: the session's id.
        selection: the session's tests.
        baselines, history: what they are judged by.
        observer: is told how each run progresses.
        nodes: what starts tests on several nodes; None: this machine's own processes stand for nodes.

    Attributes:
        machine: what is measured on.
        launchers: what starts training.
        tasks: makes the task of each call.
        engine: takes every run of the session.
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
    ) -> None:
        self._settings = settings
        self._session = session
        self._history = history
        self._earlier = EarlierSessions(history, session)
        self.machine = ThisMachine(settings, selection, nodes)
        self.launchers = Launchers(settings, selection, nodes)
        self.tasks = TaskMaker(settings, self.launchers, baselines, self._earlier)
        guard = DisturbanceGuard(settings.disturbance_limits)
        self.engine = RunEngine(
            observer,
            guard,
            str(settings.data_dir or ""),
            sampled=not settings.smoke,
            warm_up_seconds=settings.gpu_warmup,
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
