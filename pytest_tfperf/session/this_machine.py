"""The machine that a session measures on: its devices, its names, and the tests that can run on it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cached_property

from pytest_tfperf.bench.session import Session
from pytest_tfperf.core.selection import SelectedTest
from pytest_tfperf.core.topology import LOCAL_LINK, Topology
from pytest_tfperf.hardware.discovery import discover
from pytest_tfperf.workers.launcher import Nodes

# Processes of this machine that may stand for nodes: each takes about 400 MB and a thread for each device.
MOST_LOCAL_NODES = 64


class ThisMachine:
    """The devices that tests take, and the names that their baselines have.

    Args:
        context: the session's settings and tests.
        nodes: starts tests on several nodes; None: processes of this machine stand for nodes.
    """

    def __init__(self, context: Session, nodes: Nodes | None) -> None:
        self._context = context
        self._settings = context.settings
        self._selection = context.selection
        self._nodes = nodes

    @cached_property
    def topology(self) -> Topology:
        """The machine, discovered once."""
        here, nodes = replace(discover(is_known=self._is_known), machine_name=self._settings.machine), self._nodes
        if nodes is None:
            return replace(here, most_nodes=MOST_LOCAL_NODES, node_link=LOCAL_LINK)
        return replace(here, most_nodes=nodes.most_nodes, node_link=nodes.link)

    def _is_known(self, machine: str) -> bool:
        """Whether this machine has baselines, committed or of earlier sessions."""
        context = self._context
        if machine in context.baselines.machines():
            return True
        with context.noting_history_faults():
            return any(context.history.earlier.earlier_measurements(machine, before=context.id, most=1))
        return False

    @property
    def is_discovered(self) -> bool:
        """Whether `topology` is known: a session that can't discover it has a summary, too."""
        return "topology" in self.__dict__

    def topology_for(self, *, cpu: bool, gpu: bool) -> Topology:
        """The devices for a test with these marks: those that its mark names; with both or neither what there is."""
        machine, name = self.topology, self._settings.machine
        # A driver that fails must not turn a test of GPUs into one of CPUs.
        has_no_gpu = not machine.gpus and not machine.driver_fault
        if has_no_gpu if cpu == gpu else cpu:
            return replace(machine.on_cpu(), machine_name=f"{name}-cpu" if name and machine.gpus else name)
        return machine.split() if self._settings.split_gpu and machine.gpus else machine

    @property
    def names(self) -> list[str]:
        """The machines whose baselines the selected tests use: a host's CPUs and its GPUs are two."""
        return sorted({self.topology_for(cpu=cpu, gpu=gpu).machine for cpu, gpu in self._selection.marks})

    @property
    def names_of_all(self) -> set[str]:
        """The machines of this host, whichever tests are selected."""
        return {self.topology_for(cpu=cpu, gpu=not cpu).machine for cpu in (True, False)}

    @property
    def runnable(self) -> list[SelectedTest]:
        """The selected tests that can run here."""
        has_data = self._settings.data_dir is not None
        return self._selection.runnable(has_gpus=bool(self.topology.gpus), has_data=has_data)

    def runnable_on(self, machine: str) -> int:
        """The number of runnable tests that use a machine's baselines.

        For several nodes all of them, because no mark tells which tests run there.
        """
        names = Counter(self.topology_for(cpu=test.cpu, gpu=test.gpu).machine for test in self.runnable)
        return names[machine] or names.total()
