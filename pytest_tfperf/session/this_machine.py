"""The machine that a session measures on: its devices and names, the tests that can run on it, and earlier sessions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.past import EarlierMeasurement, SessionChanges
from pytest_tfperf.core.selection import SelectedTest, Selection
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.topology import LOCAL_LINK, Topology
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.hardware.discovery import discover
from pytest_tfperf.judging.reference import MOST_MEASUREMENTS, provisional_baselines
from pytest_tfperf.workers.launcher import Nodes

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import History

MOST_LOCAL_NODES = 64
"""Processes of this machine that may stand for nodes: each takes about 400 MB and a thread for each device."""


class ThisMachine:
    """What tests take their devices from.

    Args:
        settings: what the user asked for.
        selection: the session's tests.
        nodes: what starts tests on several nodes; None: this machine's own processes stand for nodes.
    """

    def __init__(self, settings: Settings, selection: Selection, nodes: Nodes | None) -> None:
        self._settings = settings
        self._selection = selection
        self._nodes = nodes

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
    def names(self) -> list[str]:
        """The machines whose baselines the selected tests use: a host's CPUs and its GPUs are two."""
        return sorted({self.topology_for(cpu=cpu, gpu=gpu).machine for cpu, gpu in self._selection.marks})

    @property
    def runnable(self) -> list[SelectedTest]:
        """The selected tests that can run here."""
        has_data = self._settings.data_dir is not None
        return self._selection.runnable(has_gpus=bool(self.topology.gpus), has_data=has_data)

    def runnable_on(self, machine: str) -> int:
        """How many of them use a machine's baselines; for several nodes all, as no mark tells which tests these are."""
        names = Counter(self.topology_for(cpu=test.cpu, gpu=test.gpu).machine for test in self.runnable)
        return names[machine] or names.total()


class EarlierSessions:
    """What the history shows of the sessions before this one; one that can't be read shows nothing.

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

    def of_rows(self, rows: Iterable[Baseline], *, tests: int) -> Mapping[Key, tuple[SessionChanges, ...]]:
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
