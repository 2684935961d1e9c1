"""One GPU (or MIG device), and which GPUs count as equal.

To add a fact: add a field with the default None to `Gpu`, and read it from NVML in `hardware/gpus.py:read_gpu`.
JSON follows by itself. To show it in `tfperf topology`, add it to `reports/topology.py:_facts`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU, or one MIG device of a GPU; None where the driver does not report the fact.

    Args:
        index: NVML's index, in the order of PCI bus ids; a MIG device has its GPU's.
        uuid: "GPU-..." or "MIG-...", as CUDA_VISIBLE_DEVICES takes it.
        name: as the driver writes it, MIG profile included.
        memory_bytes: all of it, used or not.
        compute_capability: major and minor.
        cores: CUDA cores (FP32 lanes).
        max_sm_clock_mhz: the maximum that NVML reports; on GeForce cards above the advertised boost.
        pcie_generation, pcie_width: the maximum of card and slot together.
        pci_bus_id: as in sysfs, "0000:06:00.0".
        numa_node: the nearest node of the host's memory.
        cpu_affinity: the nearest CPUs of the host, "0-19,40-59".
        mig_profile: "1g.18gb" on a MIG device.
    """

    index: int
    uuid: str
    name: str
    memory_bytes: int | None = None
    compute_capability: tuple[int, int] | None = None
    cores: int | None = None
    max_sm_clock_mhz: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pci_bus_id: str | None = None
    numa_node: int | None = None
    cpu_affinity: str | None = None
    mig_profile: str | None = None

    @property
    def mig(self) -> bool:
        """Whether this is a MIG device."""
        return self.mig_profile is not None

    @property
    def fp32_tflops(self) -> float | None:
        """Peak rate in 10^12 FLOP/s: each core completes one fused multiply-add, 2 FLOP, per clock."""
        if self.cores is None or self.max_sm_clock_mhz is None:
            return None
        return self.cores * 2 * self.max_sm_clock_mhz / 1e6


def count_names(gpus: Sequence[Gpu]) -> str:
    """How many of each name: "2x A + 1x B"."""
    return " + ".join(f"{count}x {name}" for name, count in Counter(gpu.name for gpu in gpus).items())


def gib(size_bytes: int | None) -> str:
    """ "16 GiB"; "? GiB" where unknown."""
    return "? GiB" if size_bytes is None else f"{size_bytes / 2**30:.0f} GiB"


def equal_groups(gpus: Sequence[Gpu], indices: Sequence[int]) -> list[list[int]]:
    """The indices in groups of one name and one memory size.

    Sizes are compared in whole GiB: a card that drives a display or has retired ECC rows reports a few MiB less.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for i in indices:
        groups.setdefault((gpus[i].name, gib(gpus[i].memory_bytes)), []).append(i)
    return list(groups.values())
