"""Devices that stopped answering: after a GPU hung, further tests must not wait for their time-out."""

from __future__ import annotations

from collections.abc import Callable

from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import Hung, MeasurementError

PROBE = Workload(model="trivial", batch_size=1)
"""A workload that every working device can train."""


class UnresponsiveDevices:
    """Which devices a worker hung on, and on which of them the probe hung too; one for a launcher."""

    def __init__(self) -> None:
        self._suspected: set[str] = set()
        self._reasons: dict[str, str] = {}  # device -> how the probe hung on it

    def suspect(self, devices: Devices) -> None:
        """Note that a worker hung on these devices; either the worker or a device is at fault."""
        self._suspected |= _names(devices)

    def check(self, devices: Devices, probe: Callable[[], None]) -> None:
        """Allow a worker on these devices; calls `probe` first if a worker hung on any of them.

        Raises:
            MeasurementError: the probe hung too, now or for an earlier worker.
        """
        names = _names(devices)
        if names & self._suspected:
            try:
                probe()
            except Hung as error:
                self._reasons |= dict.fromkeys(names & self._suspected, error.brief)
            except MeasurementError:
                return  # they answer; the worker itself will explain best what is wrong
            self._suspected -= names
        if dead := sorted(names & self._reasons.keys()):
            raise MeasurementError(
                f"no worker was started: {', '.join(dead)} no longer answers. A worker hung there, and then the probe "
                f"{PROBE.id} did: {self._reasons[dead[0]]}. {_advice(devices)}"
            )


def _names(devices: Devices) -> set[str]:
    return set(devices.gpu_uuids) or {"the CPU"}


def _advice(devices: Devices) -> str:
    if devices.kind is DeviceKind.CPU:
        return "Look for what blocks the machine's disks or memory (`dmesg`), then run the tests again"
    return "Look for the GPU's Xid in the kernel's log (`dmesg`); reset the GPU (`nvidia-smi -r -i UUID`) or reboot"
