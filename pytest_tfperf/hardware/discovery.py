"""The machine at hand as a `Topology`: host, GPUs, links, and what CUDA_VISIBLE_DEVICES shows of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_tfperf.core.gpu import Gpu, Link, LinkKind, Matrix
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.hardware.gpus import VARIABLE, Card, read_cards, visible_gpus
from pytest_tfperf.hardware.host import ROOT, read_host
from pytest_tfperf.hardware.nvml import NvmlError, ask, driver_hangs, read_links, session


def discover(environ: Mapping[str, str] = os.environ, root: Path = ROOT, nvml: Any = None) -> Topology:
    """The host and its GPUs; opens no CUDA context, and works without driver, GPU or permission.

    Args:
        environ: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER are read.
        root: the folder above proc, sys and dev.
        nvml: pynvml or a stand-in; None imports pynvml.
    """
    host = read_host(root)
    if driver_hangs(root):
        why = "the NVIDIA driver does not answer; dmesg may show why (NVRM: Xid), and a reboot usually repairs it"
        return Topology(host=host, why_no_gpus=why, driver_fault=True)
    try:
        with session(nvml) as opened:
            cards, notes = read_cards(opened, root)
            links = read_links(opened, [card.handle for card in cards])
            driver = ask(opened, "nvmlSystemGetDriverVersion") or ""
            cuda = ask(opened, "nvmlSystemGetCudaDriverVersion")
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
    )
    shown = [gpus.index(gpu) for gpu in visible_gpus(cards, environ)]
    if shown == list(range(len(gpus))):
        return whole
    hidden = len(gpus) - len(shown)
    why = f"{VARIABLE}={environ[VARIABLE]!r} shows {len(shown)} of {len(gpus)} GPUs" if hidden else ""
    return whole.showing(shown, why)


def _links_of_usable(cards: Sequence[Card], links: Matrix) -> Matrix:
    """The cards' links between what can be used of them; MIG devices have none that CUDA can use."""
    ends = [(i, gpu) for i, card in enumerate(cards) for gpu in card.usable]

    def link(i: int, one: Gpu, j: int, other: Gpu) -> Link | None:
        if one is other:
            return None
        return Link(LinkKind.UNKNOWN) if one.mig or other.mig else links[i][j]

    return tuple(tuple(link(i, one, j, other) for j, other in ends) for i, one in ends)
