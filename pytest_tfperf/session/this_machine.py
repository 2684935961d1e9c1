"""The machine that a session measures on: its devices, its names, and the tests that can run on it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from pytest_tfperf.core.selection import SelectedTest, Selection
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.topology import LOCAL_LINK, Topology
from pytest_tfperf.hardware.discovery import discover
from pytest_tfperf.workers.launcher import Nodes

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
