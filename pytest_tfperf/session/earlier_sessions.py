"""What earlier sessions in the history show of this machine; a history that can't be read shows nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.past import EarlierMeasurement, PastSession
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.judging.provisional import MOST_MEASUREMENTS, provisional_baselines

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import History


class EarlierSessions:
    """The sessions before this one.

    Args:
        history: has them.
        session: this session's id.

    Attributes:
        history_fault: why they could not be read; "" where they could.
    """

    def __init__(self, history: History, session: str) -> None:
        self._history = history
        self._session = session
        self._provisional: dict[tuple[str, str], Mapping[Key, Baseline]] = {}
        self.history_fault = ""

    def provisional_baselines(self, topology: Topology) -> Mapping[Key, Baseline]:
        """Baselines from earlier sessions, for tests without a row."""
        name, gpu = topology.machine, topology.gpus[0].name if topology.gpus else ""
        if (name, gpu) not in self._provisional:
            self._provisional[name, gpu] = provisional_baselines(name, self._measurements(name), gpu=gpu)
        return self._provisional[name, gpu]

    def of_rows(self, rows: Iterable[Baseline], *, tests: int) -> Mapping[Key, tuple[PastSession, ...]]:
        """The sessions that measured these rows, and at least half as many tests as this one runs.

        Empty if the history can't be read: the session is then judged by itself.
        """
        try:
            least = math.ceil(tests / 2)
            return self._history.past_sessions_of_machine(rows, before=self._session, least_tests=least)
        except TfperfError as error:
            self.history_fault = str(error)
            return {}

    def _measurements(self, machine: str) -> Mapping[Key, Sequence[EarlierMeasurement]]:
        """Empty if the history can't be read: such tests then have no baseline."""
        try:
            return self._history.earlier_measurements(machine, before=self._session, most=MOST_MEASUREMENTS)
        except TfperfError as error:
            self.history_fault = str(error)
            return {}
