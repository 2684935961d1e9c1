"""The machine at hand as a `Topology`: host, links, and the GPUs and MIG devices that CUDA_VISIBLE_DEVICES shows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_tfperf.core.topology import Gpu, Link, LinkKind, Matrix, Topology
from pytest_tfperf.hardware.host import ROOT, read_host, text_of
from pytest_tfperf.hardware.nvml import NvmlError, as_text, ask, cause, driver_hangs, pci_address, read_links, session

VARIABLE = "CUDA_VISIBLE_DEVICES"


def discover(
    environ: Mapping[str, str] = os.environ,
    root: Path = ROOT,
    nvml: Any = None,
    is_known: Callable[[str], bool] = lambda _: False,
) -> Topology:
    """The host and its GPUs; opens no CUDA context, and works without driver, GPU or permission.

    The GPUs stay awake as long as this process lives, so that no run has to wait for them.

    Args:
        environ: of its variables CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER are read.
        is_known: whether a machine of this name was measured before; asked if GPUs are lost.
    """
    host = read_host(root)
    if driver_hangs(root):
        why = "the NVIDIA driver does not answer; dmesg may show why (NVRM: Xid), and a reboot usually repairs it"
        return Topology(host=host, why_no_gpus=why, driver_fault=True)
    try:
        with session(nvml, root) as opened:
            cards, notes, lost = read_cards(opened, root)
            links = read_links(opened, [card.handle for card in cards])
            driver = ask(opened, "nvmlSystemGetDriverVersion") or ""
            cuda = ask(opened, "nvmlSystemGetCudaDriverVersion")
            # Once more than it is shut down, so that it stays open. Without persistence mode the driver lets a GPU
            # sleep that no process has open, and takes a second or two for each to wake it.
            opened.nvmlInit()
    except NvmlError as error:
        return Topology(host=host, why_no_gpus=str(error), driver_fault=error.fault)
    gpus = tuple(gpu for card in cards for gpu in card.usable)
    whole = Topology(
        host=host,
        gpus=gpus,
        links=_links_of_usable(cards, links),
        driver_version=driver,
        cuda_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
        why_no_gpus="" if gpus else "; ".join(notes) or f"the NVIDIA driver {driver} finds no GPU",
        notes=tuple(notes) if gpus else (),
        lost=tuple(lost) if gpus else (),
        driver_fault=bool(lost) and not gpus,
    )
    whole = whole.named_as_whole(is_known) if whole.lost else whole
    shown = [gpus.index(gpu) for gpu in visible_gpus(cards, environ)]
    if shown == list(range(len(gpus))):
        return whole
    hidden = len(gpus) - len(shown)
    why = f"{VARIABLE}={environ[VARIABLE]!r} shows {len(shown)} of {len(gpus)} GPUs" if hidden else ""
    return whole.showing(shown, why)


def _links_of_usable(cards: Sequence[Card], links: Matrix) -> Matrix:
    """The links between all usable GPUs; MIG devices have none that CUDA can use."""
    ends = [(i, gpu) for i, card in enumerate(cards) for gpu in card.usable]

    def link(i: int, gpu: Gpu, j: int, other: Gpu) -> Link | None:
        if gpu is other:
            return None
        return Link(LinkKind.UNKNOWN) if gpu.mig or other.mig else links[i][j]

    return tuple(tuple(link(i, gpu, j, other) for j, other in ends) for i, gpu in ends)


@dataclass(frozen=True, slots=True)
class Card:
    """A physical GPU, and its usable devices: the GPU itself, or its MIG devices, if any were created."""

    handle: Any
    gpu: Gpu
    usable: tuple[Gpu, ...]


def read_cards(nvml: Any, root: Path) -> tuple[list[Card], list[str], list[str]]:
    """All cards in NVML's order, a note for each that cannot be used, and those of the notes that are on a lost GPU."""
    cards, notes, lost = [], [], []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            gpu = read_gpu(nvml, handle, index, root)
        except nvml.NVMLError as error:
            notes.append(f"GPU {index} cannot be used: {cause(nvml, error)}")
            if error.value != nvml.NVML_ERROR_NO_PERMISSION:  # as in a Slurm job that was given the other GPUs
                lost.append(notes[-1])
            continue
        mode = ask(nvml, "nvmlDeviceGetMigMode", handle)
        in_mig_mode = bool(mode) and mode[0] == nvml.NVML_DEVICE_MIG_ENABLE
        usable = tuple(_mig_devices(nvml, handle, gpu)) if in_mig_mode else (gpu,)
        if not usable:
            create = "create one (`nvidia-smi mig -cgi ... -C`) or turn MIG off"
            notes.append(f"GPU {index} is in MIG mode without a MIG device: {create}")
        cards.append(Card(handle, gpu, usable))
    if not lost and all(card.usable == (card.gpu,) for card in cards):
        # NVML has them in the order of the PCI bus; CUDA sees no GPU that it has no permission for.
        numbered = [replace(card.gpu, cuda_index=number) for number, card in enumerate(cards)]
        cards = [Card(card.handle, gpu, (gpu,)) for card, gpu in zip(cards, numbered, strict=True)]
    return cards, notes, lost


def read_gpu(nvml: Any, handle: Any, index: int, root: Path) -> Gpu:
    """The facts of a GPU; None for facts that the driver does not report."""
    memory = ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
    gpu = Gpu(
        index=index,
        # No worker can be given this GPU without its UUID, so this error is passed on.
        uuid=as_text(nvml.nvmlDeviceGetUUID(handle)),
        name=ask(nvml, "nvmlDeviceGetName", handle) or "unknown GPU",
        memory_bytes=memory.total if memory else None,
        compute_capability=ask(nvml, "nvmlDeviceGetCudaComputeCapability", handle),
        cores=ask(nvml, "nvmlDeviceGetNumGpuCores", handle),
        max_sm_clock_mhz=ask(nvml, "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM),
        memory_bus_bits=ask(nvml, "nvmlDeviceGetMemoryBusWidth", handle),  # from R510 on
        max_memory_clock_mhz=ask(nvml, "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_MEM),
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
            cores=None,  # NVML does not report a MIG device's
            memory_bus_bits=None,  # a MIG device has a part of the bus
            mig_profile=profile,
        )


def visible_gpus(cards: Sequence[Card], environ: Mapping[str, str]) -> list[Gpu]:
    """GPUs and MIG devices in the order in which CUDA shows them.

    An unset variable shows all, an empty variable none. The first entry that names nothing ends the list; a repeated
    entry empties it. A GPU in MIG mode stands for its MIG devices.
    """
    variable = environ.get(VARIABLE)
    if variable is None:
        # CUDA's own order matters for indices in the variable only; users know NVML's.
        return [gpu for card in cards for gpu in card.usable]
    ordered = list(cards)
    if cards and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        # NVML's order is that of the PCI bus. CUDA puts the fastest first and leaves the rest open.
        fastest = max(cards, key=lambda card: card.gpu.fp32_tflops or 0)
        ordered = [fastest, *(card for card in cards if card is not fastest)]
    shown: list[Gpu] = []
    for entry in variable.split(","):
        named = _named(entry.strip(), ordered)
        if not named:
            break
        if any(gpu in shown for gpu in named):
            return []
        shown += named
    return shown


def _named(entry: str, ordered: Sequence[Card]) -> Sequence[Gpu]:
    """The GPUs that an entry of the variable names: by index, or by a UUID's unique beginning."""
    if entry.startswith("MIG-"):
        devices = [gpu for card in ordered for gpu in card.usable if gpu.mig and gpu.uuid.startswith(entry)]
        return devices if len(devices) == 1 else ()
    if entry.startswith("GPU-"):
        cards = [card for card in ordered if card.gpu.uuid.startswith(entry)]
        return cards[0].usable if len(cards) == 1 else ()
    return ordered[int(entry)].usable if entry.isdecimal() and int(entry) < len(ordered) else ()
