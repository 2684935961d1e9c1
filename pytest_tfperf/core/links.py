"""How two GPUs are linked, and which GPUs are linked best: the nouns behind `nvidia-smi topo -m`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from pytest_tfperf.errors import TfperfError, one_of


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


def best_linked(links: Matrix, groups: Iterable[Sequence[int]], count: int) -> tuple[int, ...] | None:
    """The `count` GPUs of one group with the best worst link, then the best links in total; None if no group has them.

    Ties go to the lowest indices. All sets are tried: of 16 GPUs there are at most 12,870 of one size.
    """
    quality = [[0 if link is None else link.quality for link in row] for row in links]

    def rank(gpus: Sequence[int]) -> tuple[int, int, list[int]]:
        pairs = [quality[i][j] for i, j in combinations(gpus, 2)]
        return min(pairs, default=0), sum(pairs), [-i for i in gpus]

    sets = (gpus for group in groups for gpus in combinations(sorted(group), count))
    return max(sets, key=rank, default=None)


def link_class(links: Matrix) -> str:
    """ "nvlink" where there are NVLinks, else the worst pair's kind; "" for one GPU or where a link is not known."""
    pairs = [link for row in links for link in row if link is not None]
    if any(link.kind is LinkKind.NVLINK for link in pairs):
        return "nvlink"
    worst = min(pairs, key=lambda link: link.quality, default=Link(LinkKind.UNKNOWN)).kind
    return "" if worst is LinkKind.UNKNOWN else worst.lower()
