"""Which GPUs CUDA_VISIBLE_DEVICES leaves, and in which order, by CUDA's rules (CUDA programming guide, 5.2.1)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_tfperf.core.gpu import Gpu
    from pytest_tfperf.hardware.nvml import Card

VARIABLE = "CUDA_VISIBLE_DEVICES"


def visible_gpus(cards: Sequence[Card], environ: Mapping[str, str]) -> list[Gpu]:
    """GPUs and MIG devices in the order in which CUDA shows them.

    Unset shows all, empty none; the first entry that names nothing ends the list; a repeated one empties it. A GPU in
    MIG mode stands for its MIG devices.
    """
    ordered = _in_cuda_order(cards, environ.get("CUDA_DEVICE_ORDER", ""))
    variable = environ.get(VARIABLE)
    if variable is None:
        return [gpu for card in ordered for gpu in card.usable]
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
    if entry.startswith("MIG-"):
        slices = [gpu for card in ordered for gpu in card.usable if gpu.mig and gpu.uuid.startswith(entry)]
        return slices if len(slices) == 1 else ()
    if entry.startswith("GPU-"):
        cards = [card for card in ordered if card.gpu.uuid.startswith(entry)]
        return cards[0].usable if len(cards) == 1 else ()
    # CUDA reads the digits that an entry begins with, as C's strtoul does: "1st" is 1, "-1" is nothing.
    digits = re.match(r"\+?(\d{1,9})", entry, re.ASCII)
    return ordered[int(digits[1])].usable if digits and int(digits[1]) < len(ordered) else ()


def _in_cuda_order(cards: Sequence[Card], order: str) -> list[Card]:
    """NVML's order is that of the PCI bus; CUDA's own puts the fastest first and does not say how the rest follows."""
    if order == "PCI_BUS_ID" or not cards:
        return list(cards)
    fastest = max(cards, key=lambda card: card.gpu.fp32_tflops or 0)
    return [fastest, *(card for card in cards if card is not fastest)]
