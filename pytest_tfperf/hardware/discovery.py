"""The machine at hand as a `Topology`: host, GPUs, links, and what CUDA_VISIBLE_DEVICES leaves of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.core.links import Link, LinkKind, Matrix
from pytest_tfperf.core.topology import Host, Topology
from pytest_tfperf.hardware.host import read_host
from pytest_tfperf.hardware.nvml import Found, find_gpus
from pytest_tfperf.hardware.visible import VARIABLE, visible_gpus

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path("/")


def discover(environ: Mapping[str, str] = os.environ, root: Path = ROOT) -> Topology:
    """Ask host and NVML; takes milliseconds, opens no CUDA context, and works without driver, GPU or permission."""
    return assemble(read_host(root), find_gpus(root), environ)


def assemble(host: Host, found: Found, environ: Mapping[str, str]) -> Topology:
    """The host with the GPUs that were found, narrowed to the visible ones; its key stays the whole machine's."""
    everything = Topology(
        host=host,
        gpus=tuple(gpu for card in found.cards for gpu in card.usable),
        links=_per_usable(found),
        driver_version=found.driver_version,
        cuda_version=found.cuda_version,
        why_no_gpus=found.why_no_gpus,
        driver_fault=found.driver_fault,
        notes=found.notes,
    )
    places = {gpu.uuid: i for i, gpu in enumerate(everything.gpus)}
    shown = [places[gpu.uuid] for gpu in visible_gpus(found.cards, environ)]
    if len(shown) == len(places):
        # CUDA's order counts for indices in the variable only: unless it is set, NVML's is the one people know.
        return everything.showing(shown) if VARIABLE in environ and places else everything
    return everything.showing(shown, f"{VARIABLE}={environ[VARIABLE]!r} shows {len(shown)} of {len(places)} GPUs")


def _per_usable(found: Found) -> Matrix:
    """The cards' links between what can be used of them; MIG devices have none that CUDA can use."""
    ends = [(place, gpu) for place, card in enumerate(found.cards) for gpu in card.usable]
    no_path = Link(LinkKind.UNKNOWN)
    return tuple(
        tuple(None if one is other else no_path if one.mig or other.mig else found.links[i][j] for j, other in ends)
        for i, one in ends
    )
