"""Facts from the sessions before this one; a history that can't be read gives none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Final

from pytest_tfperf.bench.session import Session
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.past import SessionChanges, moment
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.judging.target import MOST_MEASUREMENTS, provisional_baselines
from pytest_tfperf.session.this_machine import ThisMachine

_LATELY: Final = timedelta(days=14)


class EarlierSessions:
    """Baselines, changes and times that earlier sessions left in the history.

    Args:
        context: the session's.
        machine: the machine that it measures on.
    """

    def __init__(self, context: Session, machine: ThisMachine) -> None:
        self._context = context
        self._machine = machine
        self._provisional: dict[tuple[str, str], Mapping[Key, Baseline]] = {}

    def provisional_baselines(self, topology: Topology) -> Mapping[Key, Baseline]:
        """Baselines from earlier sessions, for tests without a row."""
        name, gpu = topology.machine, topology.gpus[0].name if topology.gpus else ""
        if (name, gpu) not in self._provisional:
            context, self._provisional[name, gpu] = self._context, {}
            with context.noting_history_faults():
                earlier = context.history.earlier.earlier_measurements(name, before=context.id, most=MOST_MEASUREMENTS)
                self._provisional[name, gpu] = provisional_baselines(name, earlier, gpu=gpu)
        return self._provisional[name, gpu]

    def of_rows(self, rows: Iterable[Baseline], *, tests: int) -> Mapping[Key, tuple[SessionChanges, ...]]:
        """The sessions that measured these rows, and at least half as many tests as this one runs."""
        least = math.ceil(tests / 2)
        with self._context.noting_history_faults():
            return self._context.history.earlier.past_sessions_of_machine(
                rows, before=self._context.id, least_tests=least
            )
        return {}

    def measured_lately(self, tests: Iterable[str]) -> set[str]:
        """The tests that this machine measured in its session before this one, or in the last two weeks."""
        context = self._context
        with context.noting_history_faults():
            since, machines = datetime.now(UTC) - _LATELY, self._machine.names_of_all
            for machine in machines:
                newest = context.history.newest_sessions(machine, alone_only=True)
                if (last := next((session for session, _ in newest if session != context.id), None)) is not None:
                    first, _ = context.history.times_of(session=last, machine=machine)
                    since = min(since, moment(first))
            return context.history.earlier.measured_since(tests, machines, since)
        return set()

    # The times only make estimates better, so a fault is left to what needs the history.

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds that the last run of each runnable test took, beside no other side."""
        return {test: seconds[0] for test, seconds in self._run_seconds.items()}

    @property
    def longest_seconds(self) -> Mapping[str, float]:
        """The most seconds that a run of each runnable test took in its last sessions."""
        return {test: max(seconds) for test, seconds in self._run_seconds.items()}

    @cached_property
    def _run_seconds(self) -> Mapping[str, tuple[float, ...]]:
        with suppress(TfperfError):
            return self._context.history.earlier.run_seconds(self._tests)
        return {}

    @cached_property
    def seconds_of_interleaved(self) -> Mapping[str, float]:
        """Seconds of a run in the last interleaved measurement of each runnable test."""
        with suppress(TfperfError):
            return self._context.history.earlier.seconds_of_interleaved(self._tests)
        return {}

    @cached_property
    def confirmations(self) -> tuple[int, int]:
        """The number of confirmation runs, and of the measurements among which they were."""
        with suppress(TfperfError):
            return self._context.history.earlier.confirmation_runs(self._machine.names)
        return 0, 0

    @property
    def _tests(self) -> list[str]:
        return [test.id for test in self._machine.runnable]
