"""pynvml for a machine that a test describes, with the real module's constants, errors and signatures.

It answers as NVML's header says; it was never compared with a real driver on such a machine.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml

from pytest_tfperf.core.topology import LinkKind, Topology

NO_ADDRESS = "ffff:ff:1f.0"
_LEVELS = {LinkKind.PIX: 10, LinkKind.PXB: 20, LinkKind.PHB: 30, LinkKind.NODE: 40, LinkKind.SYS: 50}


@dataclass(frozen=True)
class MigDevice:
    uuid: str
    name: str
    memory_bytes: int
    multiprocessors: int


@dataclass(frozen=True)
class NvLink:
    """Where a GPU's NVLink ends: the kind, PCI address and device id that NVML reports."""

    kind: int
    address: str = NO_ADDRESS
    device_id: int = 0x20B010DE


@dataclass(frozen=True)
class Now:
    """What a GPU shows, and the per cent of it that each pid uses; stale: `seconds` before the time asked about."""

    celsius: int = 40
    reasons: int = 0
    processes: Mapping[int, int] = field(default_factory=dict)
    stale: bool = False


class FakeNvml:
    """A machine: a snapshot, and what a snapshot does not contain.

    Args:
        machine: GPUs, links, driver.
        nvlinks: replaces those that the links imply, by GPU index.
        mig: the MIG devices of GPUs in MIG mode, by GPU index.
        now: what each GPU shows.
        broken: function -> the error code that it raises; None: nvidia-ml-py does not have it.
    """

    def __init__(
        self,
        machine: Topology,
        *,
        nvlinks: Mapping[int, Sequence[NvLink]] | None = None,
        mig: Mapping[int, Sequence[MigDevice]] = {},  # noqa: B006  # never written
        now: Now = Now(),  # noqa: B008  # frozen
        broken: Mapping[str, int | None] = {},  # noqa: B006  # never written
    ) -> None:
        self.machine, self.nvlinks, self.mig, self.now, self.broken = machine, nvlinks, mig, now, broken
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(pynvml, name)
        if not inspect.isfunction(real):
            return real

        def call(*args: Any) -> Any:
            inspect.signature(real).bind(*args)  # a TypeError where the real function takes others
            self.calls.append(name)
            code = self.broken.get(name, 0)
            if code is None:
                raise AttributeError(name)
            if code:
                raise pynvml.NVMLError(code)
            return getattr(self, "_" + name)(*args)

        return call

    # A GPU's handle is its index; a MIG device's is a pair of it and a number.

    def _gpu(self, handle: Any) -> Any:
        if isinstance(handle, tuple):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return self.machine.gpus[handle]

    def _usable(self, handle: Any) -> Any:
        return self.mig[handle[0]][handle[1]] if isinstance(handle, tuple) else self.machine.gpus[handle]

    def _reported(self, value: Any) -> Any:
        if value is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return value

    def _nvmlInit(self) -> None: ...

    def _nvmlShutdown(self) -> None: ...

    def _nvmlSystemGetDriverVersion(self) -> str:
        return self.machine.driver_version

    def _nvmlSystemGetCudaDriverVersion(self) -> int:
        major, _, minor = (self.machine.cuda_version or "0.0").partition(".")
        return int(major) * 1000 + int(minor) * 10

    def _nvmlDeviceGetCount(self) -> int:
        return len(self.machine.gpus)

    def _nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def _nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:
        whole = {gpu.uuid: i for i, gpu in enumerate(self.machine.gpus)}
        handles = whole | {device.uuid: (i, j) for i, row in self.mig.items() for j, device in enumerate(row)}
        if uuid not in handles:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return handles[uuid]

    def _nvmlDeviceGetUUID(self, handle: Any) -> str:
        return self._usable(handle).uuid

    def _nvmlDeviceGetName(self, handle: Any) -> str:
        return self._usable(handle).name

    def _nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any:
        return SimpleNamespace(total=self._usable(handle).memory_bytes, used=2**30)

    def _nvmlDeviceGetCudaComputeCapability(self, handle: Any) -> Any:
        return self._gpu(handle).compute_capability

    def _nvmlDeviceGetNumGpuCores(self, handle: Any) -> int:
        return self._reported(self._gpu(handle).cores)

    def _nvmlDeviceGetMaxClockInfo(self, handle: Any, clock: int) -> int:
        assert clock == pynvml.NVML_CLOCK_SM
        return self._reported(self._gpu(handle).max_sm_clock_mhz)

    def _nvmlDeviceGetMaxPcieLinkGeneration(self, handle: Any) -> int:
        return self._reported(self._gpu(handle).pcie_generation)

    def _nvmlDeviceGetMaxPcieLinkWidth(self, handle: Any) -> int:
        return self._reported(self._gpu(handle).pcie_width)

    def _nvmlDeviceGetPciInfo(self, handle: Any) -> Any:
        return _pci(self._gpu(handle).pci_bus_id or NO_ADDRESS)

    def _nvmlDeviceGetTopologyCommonAncestor(self, one: int, other: int) -> int:
        return _LEVELS.get(self.machine.links[one][other].kind, 50)

    def _links(self, handle: int) -> Sequence[NvLink]:
        if self.nvlinks is not None:
            return self.nvlinks.get(handle, ())
        ends = [(link.nvlinks, j) for j, link in enumerate(self.machine.links[handle]) if link is not None]
        gpu = pynvml.NVML_NVLINK_DEVICE_TYPE_GPU
        return [NvLink(gpu, self.machine.gpus[j].pci_bus_id or NO_ADDRESS) for count, j in ends for _ in range(count)]

    def _nvmlDeviceGetNvLinkState(self, handle: int, number: int) -> int:
        return self._reported(1 if number < len(self._links(handle)) else None)

    def _nvmlDeviceGetNvLinkRemotePciInfo(self, handle: int, number: int) -> Any:
        link = self._links(handle)[number]
        return _pci(link.address, link.device_id)

    def _nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: int, number: int) -> int:
        return self._links(handle)[number].kind

    def _nvmlDeviceGetMigMode(self, handle: int) -> list[int]:
        return [int(handle in self.mig)] * 2

    def _nvmlDeviceGetMaxMigDeviceCount(self, handle: int) -> int:
        return 7

    def _nvmlDeviceGetMigDeviceHandleByIndex(self, handle: int, number: int) -> Any:
        return self._reported((handle, number) if number < len(self.mig[handle]) else None)

    def _nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: Any) -> int:
        return handle[0]

    def _nvmlDeviceGetAttributes_v2(self, handle: Any) -> Any:
        return SimpleNamespace(multiprocessorCount=self._usable(handle).multiprocessors)

    def _nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> int:
        return self._gpu(handle) and self.now.celsius

    def _nvmlDeviceGetClockInfo(self, handle: Any, clock: int) -> int:
        return {pynvml.NVML_CLOCK_SM: 1410, pynvml.NVML_CLOCK_MEM: 3201}[clock]

    def _nvmlDeviceGetPowerUsage(self, handle: Any) -> int:
        return 250_500

    def _nvmlDeviceGetEnforcedPowerLimit(self, handle: Any) -> int:
        return 300_000

    def _nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any:
        return SimpleNamespace(gpu=97)

    def _nvmlDeviceGetCurrentClocksEventReasons(self, handle: Any) -> int:
        return self.now.reasons

    _nvmlDeviceGetCurrentClocksThrottleReasons = _nvmlDeviceGetCurrentClocksEventReasons

    def _nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[Any]:
        return [SimpleNamespace(pid=pid) for pid in self.now.processes]

    def _nvmlDeviceGetProcessUtilization(self, handle: Any, since: int) -> list[Any]:
        at = since - 1 if self.now.stale else since
        return [SimpleNamespace(pid=pid, smUtil=used, timeStamp=at) for pid, used in self.now.processes.items()]


def _pci(address: str, device_id: int = 0x15F910DE) -> Any:
    domain, bus, rest = address.split(":")
    device = rest.partition(".")[0]
    return SimpleNamespace(domain=int(domain, 16), bus=int(bus, 16), device=int(device, 16), pciDeviceId=device_id)
