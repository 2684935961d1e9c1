"""How two GPUs are linked, and which set of GPUs is linked best: the nouns behind `nvidia-smi topo -m`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Self

from pytest_tfperf.errors import TfperfError, one_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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

    Raises:
        TfperfError: an NVLink without a count, or a count without NVLink.
    """

    kind: LinkKind
    nvlinks: int = 0

    def __post_init__(self) -> None:
        if (self.kind is LinkKind.NVLINK) != (self.nvlinks > 0):
            raise TfperfError(f"{self.nvlinks} NVLinks on a link of kind {self.kind.name}: NVLINK, and only it, counts")

    @property
    def quality(self) -> int:
        """Larger is better; one NVLink beats any PCIe path (20 GB/s each way on a P100, PCIe 3 about 12)."""
        if self.kind is LinkKind.NVLINK:
            return 10 * self.nvlinks + len(LinkKind)
        return len(LinkKind) - 1 - list(LinkKind).index(self.kind)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The link that prints as this text.

        Raises:
            TfperfError: no such link; lists those that there are.
        """
        nvlink = re.fullmatch(r"NV([1-9]\d{0,3})", text)
        if nvlink:
            return cls(LinkKind.NVLINK, int(nvlink[1]))
        if text in set(LinkKind) - {LinkKind.NVLINK}:
            return cls(LinkKind(text))
        raise TfperfError(one_of("link", text, ["X", "NV1", "NV2", *(set(LinkKind) - {LinkKind.NVLINK})]))

    def __str__(self) -> str:
        return f"NV{self.nvlinks}" if self.kind is LinkKind.NVLINK else self.kind.value


# Row i, column j: the link between GPUs i and j; None on the diagonal.
Matrix = tuple[tuple[Link | None, ...], ...]

# DGX-2's 16 GPUs have at most 12,870 sets of one size; beyond this many, a greedy search must do.
_EXACT_UP_TO_SETS = 20_000


def best_linked(links: Matrix, groups: Iterable[Sequence[int]], count: int) -> tuple[int, ...] | None:
    """The `count` GPUs out of one group whose worst pair is linked best, then whose links are best in total.

    Ties go to the lowest indices. Exact up to 20,000 sets a group; greedy from each GPU beyond.
    None where no group is large enough.
    """
    sets = (found for group in groups if len(group) >= count for found in _sets(links, sorted(group), count))
    return max(sets, key=lambda found: (_quality(links, found), [-i for i in found]), default=None)


def link_class(links: Matrix) -> str:
    """ "nvlink" where NVLinks connect all GPUs, else the worst pair's kind; "" for one GPU or where none is known."""
    pairs = [link for row in links for link in row if link is not None]
    if not pairs:
        return ""
    if _connected_by_nvlink(links):
        return "nvlink"
    worst = min(pairs, key=lambda link: link.quality).kind
    bridged = "nvlink-" if any(link.kind is LinkKind.NVLINK for link in pairs) else ""
    return f"{bridged}{worst.lower()}" if worst is not LinkKind.UNKNOWN else bridged.strip("-")


def _connected_by_nvlink(links: Matrix) -> bool:
    """Whether NVLinks reach every GPU from every other, if through a third, as in the DGX-1's cube mesh."""
    reached, edge = {0}, [0]
    while edge:
        row = links[edge.pop()]
        new = {j for j, link in enumerate(row) if link and link.kind is LinkKind.NVLINK} - reached
        reached |= new
        edge += new
    return len(reached) == len(links)


def _sets(links: Matrix, group: Sequence[int], count: int) -> Iterable[tuple[int, ...]]:
    if comb(len(group), count) <= _EXACT_UP_TO_SETS:
        return combinations(group, count)
    return (_grown(links, seed, group, count) for seed in group)


def _grown(links: Matrix, seed: int, group: Sequence[int], count: int) -> tuple[int, ...]:
    chosen: tuple[int, ...] = (seed,)
    while len(chosen) < count:
        rest = [i for i in group if i not in chosen]
        chosen += (max(rest, key=lambda i: (_quality(links, (*chosen, i)), -i)),)
    return tuple(sorted(chosen))


def _quality(links: Matrix, gpus: tuple[int, ...]) -> tuple[int, int]:
    pairs = [link.quality for i, j in combinations(gpus, 2) if (link := links[i][j]) is not None]
    return min(pairs, default=0), sum(pairs)
