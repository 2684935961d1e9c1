"""The GPUs that NVML shows: the facts of each, and its MIG devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_tfperf.core.gpu import Gpu
from pytest_tfperf.hardware.host import text_of
from pytest_tfperf.hardware.nvml import as_text, ask, cause
from pytest_tfperf.hardware.nvml_links import pci_address


@dataclass(frozen=True, slots=True)
class Card:
    """A physical GPU and what of it can be used: itself, or its MIG devices (none, where none were created)."""

    handle: Any
    gpu: Gpu
    usable: tuple[Gpu, ...]


def read_cards(nvml: Any, root: Path) -> tuple[list[Card], list[str]]:
    """All cards in NVML's order, and a note for each that cannot be used.

    Args:
        nvml: pynvml, initialised.
        root: the folder above sys.
    """
    cards, notes = [], []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            gpu = read_gpu(nvml, handle, index, root)
        except nvml.NVMLError as error:
            notes.append(f"GPU {index} cannot be used: {cause(nvml, error)}")
            continue
        mode = ask(nvml, "nvmlDeviceGetMigMode", handle)
        in_mig_mode = bool(mode) and mode[0] == nvml.NVML_DEVICE_MIG_ENABLE
        usable = tuple(_mig_devices(nvml, handle, gpu)) if in_mig_mode else (gpu,)
        if not usable:
            create = "create one (`nvidia-smi mig -cgi ... -C`) or turn MIG off"
            notes.append(f"GPU {index} is in MIG mode without a MIG device: {create}")
        cards.append(Card(handle, gpu, usable))
    return cards, notes


def read_gpu(nvml: Any, handle: Any, index: int, root: Path) -> Gpu:
    """Every fact of one GPU; what the driver does not report is None."""
    memory = ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
    gpu = Gpu(
        index=index,
        # The one fact that a worker needs to be given this GPU, so its error is passed on.
        uuid=as_text(nvml.nvmlDeviceGetUUID(handle)),
        name=ask(nvml, "nvmlDeviceGetName", handle) or "unknown GPU",
        memory_bytes=memory.total if memory else None,
        compute_capability=ask(nvml, "nvmlDeviceGetCudaComputeCapability", handle),
        cores=ask(nvml, "nvmlDeviceGetNumGpuCores", handle),
        max_sm_clock_mhz=ask(nvml, "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM),
        pcie_generation=ask(nvml, "nvmlDeviceGetMaxPcieLinkGeneration", handle),
        pcie_width=ask(nvml, "nvmlDeviceGetMaxPcieLinkWidth", handle),
    )
    if (pci := ask(nvml, "nvmlDeviceGetPciInfo", handle)) is None:
        return gpu
    bus_id = "{:04x}:{:02x}:{:02x}.0".format(*pci_address(pci))
    # NVML reports NUMA node and nearest CPUs only since R510, sysfs always. Its -1 is "not known".
    node = text_of(root / "sys/bus/pci/devices" / bus_id / "numa_node")
    cpus = text_of(root / "sys/bus/pci/devices" / bus_id / "local_cpulist")
    numa_node = int(node) if node.isdecimal() else None
    return replace(gpu, pci_bus_id=bus_id, numa_node=numa_node, cpu_affinity=cpus or None)


def _mig_devices(nvml: Any, handle: Any, parent: Gpu) -> Iterator[Gpu]:
    """The MIG devices of a GPU in MIG mode; clocks, PCIe and NUMA node are their GPU's."""
    for number in range(ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        device = ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
        uuid = None if device is None else ask(nvml, "nvmlDeviceGetUUID", device)
        if not uuid:
            continue
        memory = ask(nvml, "nvmlDeviceGetMemoryInfo", device)
        # "NVIDIA H200 MIG 1g.18gb", from drivers as new as MIG devices that TensorFlow can use.
        profile = (ask(nvml, "nvmlDeviceGetName", device) or "").partition(" MIG ")[2] or "unknown profile"
        yield replace(
            parent,
            uuid=uuid,
            name=f"{parent.name} MIG {profile}",
            memory_bytes=memory.total if memory else None,
            cores=None,  # NVML does not tell them for a MIG device
            mig_profile=profile,
        )
