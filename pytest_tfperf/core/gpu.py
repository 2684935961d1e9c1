"""One GPU (or MIG device), and which GPUs count as equal.

To add a fact: add a field with the default None to `Gpu`, and read it from NVML in `hardware/gpus.py:read_gpu`.
JSON follows by itself. To show it in `tfperf topology`, add it to `reports/topology.py:_facts`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

# A card that drives a display or has retired ECC rows reports a few MiB less than an equal one.
_EQUAL_MEMORY_RATIO = 1.02


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
    """How many of each name, with the memory where one name has several sizes: "2x A + 1x B"."""
    groups = [[gpus[i] for i in group] for group in sorted(equal_groups(gpus, range(len(gpus))))]
    sizes = Counter(group[0].name for group in groups)

    def text(group: list[Gpu]) -> str:
        memory = f" ({gib(group[0].memory_bytes)})" if sizes[group[0].name] > 1 else ""
        return f"{len(group)}x {group[0].name}{memory}"

    return " + ".join(map(text, groups))


def gib(size_bytes: int | None) -> str:
    """ "16 GiB"; "? GiB" where unknown."""
    return "? GiB" if size_bytes is None else f"{size_bytes / 2**30:.0f} GiB"


def equal_groups(gpus: Sequence[Gpu], indices: Sequence[int]) -> list[list[int]]:
    """The indices in groups of one name and (nearly) one memory size."""
    groups: list[list[int]] = []
    for i in sorted(indices, key=lambda i: (gpus[i].name, gpus[i].memory_bytes or 0, i)):
        first = gpus[groups[-1][0]] if groups else None
        same_name = first is not None and first.name == gpus[i].name
        if same_name and first and (gpus[i].memory_bytes or 0) <= (first.memory_bytes or 0) * _EQUAL_MEMORY_RATIO:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups
