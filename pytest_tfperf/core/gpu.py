"""One GPU (or MIG device), which GPUs count as equal, and how two of them are linked.

To add a fact: add a field with the default None to `Gpu`, and read it from NVML in `hardware/discovery.py:read_gpu`.
JSON follows by itself. To show it in `tfperf topology`, add it to `cli/__init__.py:_facts`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from pytest_tfperf.errors import TfperfError, one_of


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
        memory_bus_bits, max_memory_clock_mhz: of its own memory.
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
    memory_bus_bits: int | None = None
    max_memory_clock_mhz: int | None = None
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

    @property
    def memory_gb_per_sec(self) -> float | None:
        """Peak rate of its own memory in 10^9 bytes/s, with two transfers a clock, as NVML counts clocks.

        It gives the data sheets' 732 of a P100 (4,096 bits, 715 MHz), 300 of an L4 (192 bits, 6,251 MHz) and 3,352 of
        an H100 (5,120 bits, 2,619 MHz).
        """
        if self.memory_bus_bits is None or self.max_memory_clock_mhz is None:
            return None
        return self.memory_bus_bits / 8 * 2 * self.max_memory_clock_mhz / 1000


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


class LinkKind(StrEnum):
    """The path between two GPUs in `nvidia-smi`'s words, best first."""

    NVLINK = "NV"
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    NODE = "NODE"
    SYS = "SYS"
    UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Link:
    """The best path between two GPUs; it prints as `nvidia-smi topo -m` does: "NV4", "PIX", "SYS".

    Args:
        kind: NVLink, or how far the PCIe path reaches.
        nvlinks: how many NVLinks are bonded; 0 for any other kind.
    """

    kind: LinkKind
    nvlinks: int = 0

    @property
    def quality(self) -> int:
        """Larger is better; one NVLink beats any PCIe path (20 GB/s each way on a P100, PCIe 3 about 12)."""
        if self.kind is LinkKind.NVLINK:
            return 10 * self.nvlinks + len(LinkKind)
        return len(LinkKind) - 1 - list(LinkKind).index(self.kind)

    @classmethod
    def parse(cls, text: str) -> Link:
        """The link that prints as this text.

        Raises:
            TfperfError: no such link; lists the known ones.
        """
        if nvlink := re.fullmatch(r"NV([1-9]\d{0,3})", text):
            return cls(LinkKind.NVLINK, int(nvlink[1]))
        pcie = set(LinkKind) - {LinkKind.NVLINK}
        if text not in pcie:
            raise TfperfError(one_of("link", text, ["NV1", "NV2", *pcie]))
        return cls(LinkKind(text))

    def __str__(self) -> str:
        return f"NV{self.nvlinks}" if self.kind is LinkKind.NVLINK else self.kind.value


# Row i, column j: the link between GPUs i and j; None on the diagonal.
Matrix = tuple[tuple[Link | None, ...], ...]


def best_linked(
    gpus: Sequence[Gpu], links: Matrix, groups: Iterable[Sequence[int]], count: int
) -> tuple[int, ...] | None:
    """The `count` GPUs of one group with the best worst link, then the best links in total; None if no group has them.

    Ties go to the GPUs with the highest peak rate, so that a single one is never a small card for a display, and then
    to the lowest indices. All sets are tried: of 16 GPUs there are at most 12,870 of one size.
    """
    quality = [[0 if link is None else link.quality for link in row] for row in links]

    def rank(indices: Sequence[int]) -> tuple[int, int, float, list[int]]:
        pairs = [quality[i][j] for i, j in combinations(indices, 2)]
        slowest = min(gpus[i].fp32_tflops or 0.0 for i in indices)
        return min(pairs, default=0), sum(pairs), slowest, [-i for i in indices]

    sets = (indices for group in groups for indices in combinations(sorted(group), count))
    return max(sets, key=rank, default=None)


def link_class(links: Matrix) -> str:
    """ "nvlink" where there are NVLinks, else the worst pair's kind; "" for one GPU or where a link is not known."""
    pairs = [link for row in links for link in row if link is not None]
    if any(link.kind is LinkKind.NVLINK for link in pairs):
        return "nvlink"
    worst = min(pairs, key=lambda link: link.quality, default=Link(LinkKind.UNKNOWN)).kind
    return "" if worst is LinkKind.UNKNOWN else worst.lower()
