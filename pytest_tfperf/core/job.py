"""What one worker is told to do: the one description that crosses the wire to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_tfperf.core.topology import Devices
from pytest_tfperf.core.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one worker does.

    Args:
        workload: what to train.
        devices: what to train it on.
        seed: for the initial weights and the synthetic images.
        slowdown: fraction of its throughput that the worker loses on purpose, 0 to below 1.
        data_dir: folder of the TFRecords that imagenet pipelines read; "" where none was named.
        cores: that affinity and quota leave; None: as many as the affinity says.
        names: users' own models and pipelines, kind -> name -> "package.module:function" (`catalogue.registered`).
    """

    workload: Workload
    devices: Devices
    seed: int = 0
    slowdown: float = 0.0
    data_dir: str = ""
    cores: int | None = None
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
