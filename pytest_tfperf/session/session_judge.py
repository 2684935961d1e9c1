"""Judges a session as a whole: the software and the machine, when all tests have run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pytest_tfperf.bench.machine_session import MachineSession
from pytest_tfperf.bench.run_engine import RunEngine
from pytest_tfperf.bench.sentinels import session_verdicts
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.session_verdicts import SessionVerdict
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.session.feature_hooks import features
from pytest_tfperf.session.this_machine import EarlierSessions, ThisMachine
from pytest_tfperf.stores.baselines import BaselineStore

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import History


class SessionJudge:
    """Has what the tests of each machine have in common, and judges software and machine from it.

    Args:
        settings: what the user asked for.
        session: the session's id.
        machine: what it measures on.
        engine: takes further runs where a verdict needs them.
        baselines, earlier: what it is judged by.
        history: keeps the verdicts.

    Attributes:
        history_fault: why verdicts were not kept, or a feature could not judge; "" if nothing was in the way.
    """

    def __init__(
        self,
        settings: Settings,
        session: str,
        machine: ThisMachine,
        engine: RunEngine,
        baselines: BaselineStore,
        earlier: EarlierSessions,
        history: History,
    ) -> None:
        self._settings = settings
        self._session = session
        self._machine = machine
        self._engine = engine
        self._baselines = baselines
        self._earlier = earlier
        self._history = history
        self._machines: dict[str, MachineSession] = {}
        self.history_fault = ""

    def machine_session(self, topology: Topology) -> MachineSession:
        """What the tests on a topology's machine have in common."""
        name = topology.machine
        if name not in self._machines:
            rows, runnable = self._baselines.load(name), self._machine.runnable_on(name)
            tests = min(runnable, len(rows))
            self._machines[name] = MachineSession(
                rows,
                self._earlier.of_rows(rows.values(), tests=runnable),
                tests=tests,
                unrecorded=max(1, runnable - tests),
                figure_rows=self._baselines.figures(name),
            )
        return self._machines[name]

    @property
    def reference_failures(self) -> list[tuple[str, str]]:
        """The tests whose workload failed in its reference environment, each with the reason."""
        failures = [machine.reference_failures for machine in self._machines.values()]
        return [(test, why) for calls in failures for (test, _), why in calls.items()]

    def judge(self, results: Iterable[Measurement]) -> list[SessionVerdict]:
        """The verdicts on the session, from the results of all tests, added to the history; may take further runs."""
        verdicts = [*self._verdicts(results), *self._verdicts_of_features()]
        self._keep(verdicts)
        return verdicts

    def _verdicts(self, results: Iterable[Measurement]) -> Iterator[SessionVerdict]:
        measurements = [result for result in results if result.other is None]
        for name, machine in self._machines.items():
            measured = [one for one in measurements if one.machine == name]
            for found in session_verdicts(machine, self._engine, measured, turn=machine.sessions_before):
                if found is not None:
                    yield SessionVerdict.of(found, name, measured)

    def _verdicts_of_features(self) -> list[SessionVerdict]:
        """None of a feature that can't read the history."""
        try:
            found: list[Iterable[SessionVerdict]] = features().ask(
                "session_verdicts",
                settings=self._settings,
                session=self._session,
                machines=self._machine.names,
                history=self._history,
            )
            return [verdict for verdicts in found for verdict in verdicts]
        except TfperfError as error:
            self.history_fault = str(error)
            return []

    def _keep(self, verdicts: Iterable[SessionVerdict]) -> None:
        """They count even if the history can't be written."""
        now = datetime.now(UTC).isoformat()
        try:
            for verdict in verdicts:
                self._history.append_verdict(verdict, session=self._session, time=now)
        except TfperfError as error:
            self.history_fault = str(error)
