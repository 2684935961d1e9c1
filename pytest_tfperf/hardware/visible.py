"""Which GPUs CUDA_VISIBLE_DEVICES shows, and in which order, by CUDA's rules (CUDA programming guide, 5.2.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_tfperf.core.gpu import Gpu
from pytest_tfperf.hardware.gpus import Card

VARIABLE = "CUDA_VISIBLE_DEVICES"


def visible_gpus(cards: Sequence[Card], environ: Mapping[str, str]) -> list[Gpu]:
    """GPUs and MIG devices in the order in which CUDA shows them.

    An unset variable shows all, an empty one none. The first entry that names nothing ends the list; a repeated entry
    empties it. A GPU in MIG mode stands for its MIG devices.
    """
    variable = environ.get(VARIABLE)
    if variable is None:
        # CUDA's order matters for indices in the variable only; people know NVML's.
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
    """The GPUs that one entry of the variable names: by index, or by a UUID's unique beginning."""
    if entry.startswith("MIG-"):
        devices = [gpu for card in ordered for gpu in card.usable if gpu.mig and gpu.uuid.startswith(entry)]
        return devices if len(devices) == 1 else ()
    if entry.startswith("GPU-"):
        cards = [card for card in ordered if card.gpu.uuid.startswith(entry)]
        return cards[0].usable if len(cards) == 1 else ()
    return ordered[int(entry)].usable if entry.isdecimal() and int(entry) < len(ordered) else ()
