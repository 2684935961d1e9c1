"""Judges a session as a whole: the software and the machine, when all tests have run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from pytest_tfperf.bench.machine_session import MachineSession
from pytest_tfperf.bench.run_engine import RunEngine
from pytest_tfperf.bench.sentinels import session_verdicts
from pytest_tfperf.bench.session import Session
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.session_verdicts import SessionVerdict
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.session.earlier_sessions import EarlierSessions
from pytest_tfperf.session.feature_hooks import features
from pytest_tfperf.session.this_machine import ThisMachine


class SessionJudge:
    """Knows what the tests of each machine have in common, and judges software and machine from it.

    Args:
        context: the session's.
        machine: the machine that it measures on.
        engine: takes further runs where a verdict needs them.
        earlier: the sessions before this one.
    """

    def __init__(self, context: Session, machine: ThisMachine, engine: RunEngine, earlier: EarlierSessions) -> None:
        self._context = context
        self._machine = machine
        self._engine = engine
        self._earlier = earlier
        self._machines: dict[str, MachineSession] = {}

    def machine_session(self, topology: Topology) -> MachineSession:
        """The baselines, earlier sessions and common drift of a topology's machine."""
        name, baselines = topology.machine, self._context.baselines
        if name not in self._machines:
            rows, runnable = baselines.load(name), self._machine.runnable_on(name)
            tests = min(runnable, len(rows))
            self._machines[name] = MachineSession(
                rows,
                self._earlier.of_rows(rows.values(), tests=runnable),
                tests=tests,
                unrecorded=max(1, runnable - tests),
                figure_rows=baselines.figures(name),
            )
        return self._machines[name]

    @property
    def reference_failures(self) -> list[tuple[str, str]]:
        """The tests whose workload failed in its reference environment, each with the reason."""
        failures = [machine.reference_failures for machine in self._machines.values()]
        return [(test, why) for calls in failures for (test, _), why in calls.items()]

    def judge(self, results: Iterable[Measurement]) -> list[SessionVerdict]:
        """The verdicts on the session, from the results of all tests; may take further runs.

        They are added to the history, and count even where it can't be written.
        """
        verdicts = [*self._verdicts(results), *self._verdicts_of_features()]
        now = datetime.now(UTC).isoformat()
        with self._context.noting_history_faults():
            for verdict in verdicts:
                self._context.history.append_verdict(verdict, session=self._context.id, time=now)
        return verdicts

    def _verdicts(self, results: Iterable[Measurement]) -> Iterator[SessionVerdict]:
        measurements = [result for result in results if result.other is None]
        for name, machine in self._machines.items():
            measured = [m for m in measurements if m.machine == name]
            for verdict in session_verdicts(machine, self._engine, measured, turn=machine.sessions_before):
                if verdict is not None:
                    yield verdict.on(name, measured)

    def _verdicts_of_features(self) -> list[SessionVerdict]:
        hooks = features().hooks(self._context.settings, lambda feature: feature.session_verdicts)
        with self._context.noting_history_faults():
            return [verdict for judge in hooks for verdict in judge(self._context, self._machine.names)]
        return []
