"""pynvml for a machine that a test describes, with the real module's constants, errors and signatures.

It answers as NVML's header says; it was never compared with a real driver on such a machine.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml

from pytest_tfperf.core.topology import LinkKind, Topology

_LEVELS = {LinkKind.PIX: 10, LinkKind.PXB: 20, LinkKind.PHB: 30, LinkKind.NODE: 40, LinkKind.SYS: 50}


@dataclass(frozen=True)
class MigDevice:
    uuid: str
    name: str
    memory_bytes: int


@dataclass(frozen=True)
class NvLink:
    """Where a GPU's NVLink ends: the kind and PCI address that NVML reports."""

    kind: int
    address: str = "ffff:ff:1f.0"


@dataclass(frozen=True)
class Now:
    """What a GPU shows, and the per cent of it that each pid uses.

    Args:
        stale: these are from before the time that was given.
        mps_clients: pids of processes that compute through MPS.
        compute_mode: NVML's number.
        utilisation: per cent of the time in which any kernel ran.
    """

    celsius: int = 40
    reasons: int = 0
    processes: Mapping[int, int] = field(default_factory=dict)
    stale: bool = False
    mps_clients: Sequence[int] = ()
    compute_mode: int = pynvml.NVML_COMPUTEMODE_DEFAULT
    utilisation: int = 97


class FakeNvml:
    """A machine: a snapshot, and what a snapshot does not contain.

    Args:
        machine: GPUs, links, driver.
        nvlinks: replaces those that the links imply, by GPU index.
        mig: the MIG devices of GPUs in MIG mode, by GPU index.
        now: what each GPU shows.
        broken: function -> the error code that it raises; None: nvidia-ml-py does not have it.
        answers: function -> what answers instead.
    """

    def __init__(
        self,
        machine: Topology,
        *,
        nvlinks: Mapping[int, Sequence[NvLink]] | None = None,
        mig: Mapping[int, Sequence[MigDevice]] | None = None,
        now: Now | None = None,
        broken: Mapping[str, int | None] | None = None,
        answers: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self.machine, self.nvlinks, self.mig, self.now = machine, nvlinks, mig or {}, now or Now()
        self.broken = broken or {}
        self.answers = self._answers() | (answers or {})
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(pynvml, name)
        if not inspect.isfunction(real):
            return real  # a constant, or NVMLError

        def call(*args: Any) -> Any:
            inspect.signature(real).bind(*args)  # a TypeError where the real function takes others
            self.calls.append(name)
            code = self.broken.get(name, 0)
            if code is None:
                raise AttributeError(name)
            if code:
                raise pynvml.NVMLError(code)
            answer = self.answers[name](*args)
            if answer is None and name not in ("nvmlInit", "nvmlShutdown"):
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            return answer

        return call

    def _answers(self) -> dict[str, Callable[..., Any]]:
        """By function; None: not supported. A GPU's handle is its index, a MIG device's a pair of it and a number."""
        machine, now, gpus = self.machine, self.now, self.machine.gpus
        major, _, minor = (machine.cuda_version or "0.0").partition(".")
        handles: dict[str, Any] = {gpu.uuid: i for i, gpu in enumerate(gpus)}
        handles |= {device.uuid: (i, j) for i, row in self.mig.items() for j, device in enumerate(row)}
        clocks = {pynvml.NVML_CLOCK_SM: 1410, pynvml.NVML_CLOCK_MEM: 3201}

        def gpu_or_mig(handle: Any) -> Any:
            return self.mig[handle[0]][handle[1]] if isinstance(handle, tuple) else gpus[handle]

        def fact(name: str) -> Callable[..., Any]:
            return lambda handle, *_: None if isinstance(handle, tuple) else getattr(gpus[handle], name)

        return {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlSystemGetDriverVersion": lambda: machine.driver_version,
            "nvmlSystemGetCudaDriverVersion": lambda: int(major) * 1000 + int(minor) * 10,
            "nvmlDeviceGetCount": lambda: len(gpus),
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetHandleByUUID": lambda uuid: handles.get(uuid.decode()),
            "nvmlDeviceGetUUID": lambda handle: gpu_or_mig(handle).uuid,
            "nvmlDeviceGetName": lambda handle: gpu_or_mig(handle).name,
            "nvmlDeviceGetMemoryInfo": lambda h: SimpleNamespace(
                total=gpu_or_mig(h).memory_bytes, used=2**30, free=(gpu_or_mig(h).memory_bytes or 0) - 2**30
            ),
            "nvmlDeviceGetCudaComputeCapability": fact("compute_capability"),
            "nvmlDeviceGetNumGpuCores": fact("cores"),
            "nvmlDeviceGetMaxClockInfo": lambda handle, clock: fact(
                "max_memory_clock_mhz" if clock == pynvml.NVML_CLOCK_MEM else "max_sm_clock_mhz"
            )(handle),
            "nvmlDeviceGetMemoryBusWidth": fact("memory_bus_bits"),
            "nvmlDeviceGetMaxPcieLinkGeneration": fact("pcie_generation"),
            "nvmlDeviceGetMaxPcieLinkWidth": fact("pcie_width"),
            "nvmlDeviceGetPciInfo": lambda handle: _pci(gpus[handle].pci_bus_id),
            "nvmlDeviceGetTopologyCommonAncestor": lambda i, j: _LEVELS.get(machine.links[i][j].kind, 50),
            "nvmlDeviceGetNvLinkState": lambda handle, number: 1 if number < len(self._links(handle)) else None,
            "nvmlDeviceGetNvLinkRemotePciInfo": lambda handle, number: _pci(self._links(handle)[number].address),
            "nvmlDeviceGetNvLinkRemoteDeviceType": lambda handle, number: self._links(handle)[number].kind,
            "nvmlDeviceGetMigMode": lambda handle: [int(handle in self.mig)] * 2,
            "nvmlDeviceGetMaxMigDeviceCount": lambda handle: 7,
            "nvmlDeviceGetMigDeviceHandleByIndex": lambda i, j: (i, j) if j < len(self.mig[i]) else None,
            "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda handle: handle[0],
            "nvmlDeviceGetTemperature": lambda handle, sensor: None if isinstance(handle, tuple) else now.celsius,
            "nvmlDeviceGetClockInfo": lambda handle, clock: clocks[clock],
            "nvmlDeviceGetPowerUsage": lambda handle: 250_500,
            "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 300_000,
            "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=now.utilisation),
            "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: now.reasons,
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: now.reasons,
            "nvmlDeviceGetComputeRunningProcesses": lambda h: [SimpleNamespace(pid=pid) for pid in now.processes],
            "nvmlDeviceGetMPSComputeRunningProcesses": lambda h: [SimpleNamespace(pid=pid) for pid in now.mps_clients],
            "nvmlDeviceGetComputeMode": lambda handle: now.compute_mode,
            "nvmlDeviceGetComputeRunningProcesses_v2": lambda h: [SimpleNamespace(pid=pid) for pid in now.processes],
            "nvmlDeviceGetProcessUtilization": lambda handle, since: [
                SimpleNamespace(pid=pid, smUtil=used, timeStamp=since - now.stale)
                for pid, used in now.processes.items()
            ],
        }

    def _links(self, handle: int) -> Sequence[NvLink]:
        if self.nvlinks is not None:
            return self.nvlinks.get(handle, ())
        ends = [(link.nvlinks, j) for j, link in enumerate(self.machine.links[handle]) if link is not None]
        gpu = pynvml.NVML_NVLINK_DEVICE_TYPE_GPU
        return [NvLink(gpu, self.machine.gpus[j].pci_bus_id) for count, j in ends for _ in range(count)]


def _pci(address: str) -> Any:
    domain, bus, rest = address.split(":")
    device = rest.partition(".")[0]
    return SimpleNamespace(domain=int(domain, 16), bus=int(bus, 16), device=int(device, 16))
