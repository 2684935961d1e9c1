"""The machine: GPUs, the links between them, the host; and which of its devices a test takes.

Discovery lives in `hardware/`; this file is the noun: frozen values that can be saved to JSON and loaded again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DeviceKind(StrEnum):
    """TensorFlow's device types."""

    CPU = "CPU"
    GPU = "GPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """What a worker is to see: real GPUs by UUID, a split GPU, or virtual CPU devices.

    Args:
        kind: CPU or GPU.
        count: logical devices (replicas) per node, at least 1.
        gpu_uuids: the physical GPUs to make visible, in this order; empty on CPUs.
        split: True where one physical GPU is split into `count` logical ones.
    """

    kind: DeviceKind
    count: int
    gpu_uuids: tuple[str, ...] = ()
    split: bool = False
