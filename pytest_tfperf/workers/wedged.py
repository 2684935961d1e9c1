"""Devices that stopped answering: a GPU that wedges in mid-session must not cost each further test its time-out."""

from __future__ import annotations

from collections.abc import Callable

from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import Hung, MeasurementError

PROBE = Workload(model="trivial", batch_size=1)
"""The least that a device which answers can do."""


class Wedged:
    """What is known of each device since a worker hung on it; one for a session."""

    def __init__(self) -> None:
        self._suspected: set[str] = set()
        self._wedged: dict[str, str] = {}

    def suspect(self, devices: Devices) -> None:
        """A worker hung on these: its own fault, or theirs."""
        self._suspected |= _names(devices)

    def require(self, devices: Devices, probe: Callable[[], None]) -> None:
        """Let a worker start on these devices, after a successful `probe` where one hung on any of them before.

        Raises:
            MeasurementError: the probe hung as well, just now or for an earlier worker.
        """
        names = _names(devices)
        if names & self._suspected:
            try:
                probe()
            except Hung as error:
                self._wedged |= dict.fromkeys(names & self._suspected, str(error).splitlines()[0])
            except MeasurementError:
                return  # it answers; what is wrong, the worker itself will say best
            self._suspected -= names
        if wedged := sorted(names & self._wedged.keys()):
            raise MeasurementError(
                f"no worker was started: {', '.join(wedged)} no longer answers. One hung there, and then {PROBE.id} on "
                f"{'it' if len(wedged) == 1 else 'them'} did: {self._wedged[wedged[0]]}. {_advice(devices)}"
            )


def _names(devices: Devices) -> set[str]:
    return set(devices.gpu_uuids) or {"the CPU"}


def _advice(devices: Devices) -> str:
    if devices.kind is DeviceKind.CPU:
        return "Look at what holds the machine's disks and memory (`dmesg`), then run the tests again"
    return "Look for its Xid in the kernel's log (`dmesg`), reset it (`nvidia-smi -r -i UUID`) or the machine"
