"""MIG devices: slices of one GPU, each with its own memory and multiprocessors (A100 and newer)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_tfperf.core.gpu import Gpu


def devices(ask: Callable[..., Any], handle: Any, parent: Gpu) -> tuple[Gpu, ...]:
    """The MIG devices of a GPU in MIG mode; clocks, PCIe and NUMA node are their GPU's."""
    places = range(ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0)
    # Places without a device give an error, which `ask` answers with None.
    found = [slice for place in places if (slice := ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, place))]
    return tuple(gpu for slice in found if (gpu := _device(ask, slice, parent)))


def _device(ask: Callable[..., Any], slice: Any, parent: Gpu) -> Gpu | None:
    uuid = ask("nvmlDeviceGetUUID", slice)
    if not uuid:
        return None
    memory = ask("nvmlDeviceGetMemoryInfo", slice)
    attributes = ask("nvmlDeviceGetAttributes_v2", slice)
    profile = _profile(ask("nvmlDeviceGetName", slice) or "", attributes, parent)
    return replace(
        parent,
        uuid=uuid,
        name=f"{parent.name} MIG {profile}",
        memory_bytes=memory.total if memory else None,
        cores=attributes.multiprocessorCount * _cores_per_multiprocessor(parent) if attributes else None,
        mig_profile=profile,
    )


def _profile(name: str, attributes: Any, parent: Gpu) -> str:
    """ "1g.18gb": from the name where the driver writes it there, else as NVIDIA's go-nvlib works it out."""
    if " MIG " in name:
        return name.rpartition(" MIG ")[2]
    if attributes is None or not parent.memory_bytes:
        return "unknown profile"
    eighths = math.ceil(attributes.memorySizeMB * 2**20 / parent.memory_bytes * 8)
    gb = round(eighths / 8 * math.ceil(parent.memory_bytes / 2**30))
    gpu_slices, compute_slices = attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount
    part = "" if gpu_slices == compute_slices else f"{compute_slices}c."
    return f"{part}{gpu_slices}g.{gb}gb"


def _cores_per_multiprocessor(parent: Gpu) -> int:
    # CUDA C++ Programming Guide, "Arithmetic Instructions": FP32 lanes a multiprocessor, of the GPUs that have MIG.
    return 64 if parent.compute_capability == (8, 0) else 128
