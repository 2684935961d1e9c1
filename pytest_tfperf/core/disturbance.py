"""Disturbances of a run: other work on the machine, heat, swapping, or a throughput that never settled."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pytest_tfperf.core.telemetry import Throttle


class DisturbanceKind(StrEnum):
    """The kinds of disturbances; reports/invalid.py has their words and the advice for each."""

    OTHER_PROCESSES = "other processes"
    STEAL = "steal time"
    SWAPPING = "swapping"
    GPU_SLOWED_DOWN = "GPU slowed down"
    GPU_SHARED = "GPU shared"
    DRIVER_SILENT = "driver silent"
    NOT_STEADY = "not steady"


@dataclass(frozen=True, slots=True)
class Disturbance:
    """The cause that disturbed a run; a fact that is unknown, or does not belong to the kind, is None or ""."""

    kind: DisturbanceKind
    # a fraction of the cores' time or of a GPU's use; bytes swapped per second; or the change of a throughput that
    # never settled, -0.2 for 20 % slower
    amount: float | None = None
    culprit: str = ""  # the process that took most: "make (pid 4711)"
    cores: int | None = None  # usable cores that the amount is a fraction of
    gpu: str = ""  # its UUID
    # throttle, celsius: the reason why a GPU slowed down, and its temperature
    throttle: Throttle | None = None
    celsius: int | None = None
    windows: tuple[int, int] | None = None  # the numbers of windows at the lower and at the higher of two speeds


@dataclass(frozen=True, slots=True, kw_only=True)
class DisturbanceLimits:
    """The amount of each disturbance from which a run counts as disturbed."""

    # CPU time of other processes, of the usable cores. An editor, a monitoring agent or a terminal stays below a
    # quarter; a process that computes does not.
    other_cpu_fraction: float = 0.25
    # idle CPU time above which other processes disturb nothing, because cores were free: a GPU host with 64 cores can
    # spare 16
    idle_fraction: float = 0.25
    steal_fraction: float = 0.25  # CPU time that the hypervisor gave away; clouds take a few per cent all the time
    # 1 MiB/s is 256 pages of 4 KiB. At 0.1 ms a page they can cost 2.6 % of the time, as much as the default tolerance.
    swap_bytes_per_sec: float = 2**20
    # use of our GPU by one other process, averaged over the run. An idle notebook that only holds memory stays below.
    gpu_utilisation_fraction: float = 0.05
    # part of the time that a GPU may be slowed down by heat or its power brake. A GPU at its target temperature
    # flickers.
    gpu_samples_fraction: float = 0.25


OF_BUSY_MACHINES: Final = (DisturbanceKind.OTHER_PROCESSES, DisturbanceKind.STEAL, DisturbanceKind.SWAPPING)
"""The disturbances of which `tfperf_busy` accepts more."""
