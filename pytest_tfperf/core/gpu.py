"""One GPU (or MIG device), and what makes several of them equal."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# A card that drives a display or has ECC rows retired reports a few MiB less than its twin.
_SAME_MEMORY_WITHIN = 1.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU, or one MIG device of a GPU; None is what the driver does not tell.

    Args:
        index: NVML's index, in the order of PCI bus ids; a MIG device has its GPU's.
        uuid: "GPU-..." or "MIG-...": what CUDA_VISIBLE_DEVICES understands.
        name: as the driver writes it, MIG profile included.
        memory_bytes: all of it, used or not.
        compute_capability: major and minor.
        cores: CUDA cores (FP32 lanes).
        max_sm_clock_mhz: the highest that NVML allows; on GeForce cards above the advertised boost.
        pcie_generation, pcie_width: the most that card and slot can do together.
        pcie_current_generation, pcie_current_width: at the moment of asking; an idle GPU lowers its generation.
        pci_bus_id: as in sysfs, "0000:06:00.0".
        numa_node: of the host's memory that is nearest.
        cpu_affinity: the host's CPUs that are nearest, "0-19,40-59".
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
    pcie_current_generation: int | None = None
    pcie_current_width: int | None = None
    pci_bus_id: str | None = None
    numa_node: int | None = None
    cpu_affinity: str | None = None
    mig_profile: str | None = None

    @property
    def mig(self) -> bool:
        """Whether this is a slice of a GPU."""
        return self.mig_profile is not None

    @property
    def fp32_tflops(self) -> float | None:
        """Peak rate in 10^12 FLOP/s: each core ends one fused multiply-add, 2 FLOP, each clock."""
        if self.cores is None or self.max_sm_clock_mhz is None:
            return None
        return self.cores * 2 * self.max_sm_clock_mhz / 1e6


def count_names(gpus: Sequence[Gpu]) -> str:
    """How many of each name, with the memory where one name has several: "2x A + 1x B"."""
    groups = equal_groups(gpus, range(len(gpus)))
    models = Counter(gpus[group[0]].name for group in groups)
    return " + ".join(
        f"{len(group)}x {gpus[group[0]].name}"
        + (f" ({gib(gpus[group[0]].memory_bytes)})" if models[gpus[group[0]].name] > 1 else "")
        for group in sorted(groups)
    )


def gib(size_bytes: int | None) -> str:
    """Bytes as people name memory: "16 GiB"; "? GiB" where unknown."""
    return "? GiB" if size_bytes is None else f"{size_bytes / 2**30:.0f} GiB"


def equal_groups(gpus: Sequence[Gpu], places: Sequence[int]) -> list[list[int]]:
    """The places in groups of one name and (nearly) one memory size."""
    groups: list[list[int]] = []
    for i in sorted(places, key=lambda i: (gpus[i].name, gpus[i].memory_bytes or 0, i)):
        first = gpus[groups[-1][0]] if groups else None
        same = first is not None and first.name == gpus[i].name
        if same and first and (gpus[i].memory_bytes or 0) <= (first.memory_bytes or 0) * _SAME_MEMORY_WITHIN:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups
