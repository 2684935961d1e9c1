"""The state of the machine during a poll of a second, a run, or several runs merged.

The end of a field's name says how several values are merged: `_median`, `_mean`, `_min`, `_max`; a mapping is averaged
over the time. A new fact is a new field here, and its reading in hardware/.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

# A compilation beside the run has hundreds of processes; the busiest of them show what it is.
_MOST_ENTRIES = 10


class Throttle(StrEnum):
    """The reasons why a GPU's clock is below its maximum: NVML's clocks event reasons, in the order of their bits."""

    IDLE = "idle"
    APPLICATION_CLOCKS = "application_clocks"
    POWER_CAP = "power_cap"
    HW_SLOWDOWN = "hw_slowdown"
    SYNC_BOOST = "sync_boost"
    SW_THERMAL = "sw_thermal"
    HW_THERMAL = "hw_thermal"
    HW_POWER_BRAKE = "hw_power_brake"
    DISPLAY_CLOCKS = "display_clocks"


SLOWDOWNS: Final = (Throttle.SW_THERMAL, Throttle.HW_THERMAL, Throttle.HW_POWER_BRAKE, Throttle.HW_SLOWDOWN)
"""The reasons that slow a GPU down, exact reasons first: HW_SLOWDOWN is set together with each of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTelemetry:
    """The state of a GPU; None where the driver does not report the fact."""

    uuid: str  # the GPU or MIG device, as NVML names it; a MIG device has its GPU's clocks, power and temperature
    temperature_celsius_max: int | None = None
    sm_clock_mhz_median: float | None = None
    power_watts_mean: float | None = None
    power_limit_watts_max: int | None = None  # the power cap that was set
    utilisation_fraction_mean: float | None = None  # fraction of the time in which any kernel ran
    # `Throttle` -> fraction of the time in which it held, harmless reasons included
    throttled_fractions: Mapping[str, float] | None = None
    # "python (pid 4711)" -> fraction of the time in which a process that is not ours used this GPU; 1 while the process
    # exists, where the driver does not report its use. None where they can't be told from ours: the driver has no list
    # of them (WSL2, some vGPUs), or gives other process ids than a container's.
    other_processes: Mapping[str, float] | None = None
    processes_max: int | None = None  # the number of processes that compute on it, ours included
    neighbours_max: int | None = None  # the number of processes that compute on the other MIG devices of its GPU

    @property
    def use_by_unknown(self) -> float:
        """The fraction of the time in which it was in use, by us or others, where others can't be told; else 0.

        A MIG device has no utilisation, so there any process on it counts as using all of it.
        """
        if self.other_processes is not None:
            return 0.0
        if self.utilisation_fraction_mean is not None:
            return self.utilisation_fraction_mean
        return 1.0 if self.processes_max else 0.0

    def slowed_down_by(self, over: float = 0.0) -> Throttle | None:
        """Return the reason of heat or power that held for more than this fraction of the time; None for no reason."""
        fractions = self.throttled_fractions or {}
        return next((reason for reason in SLOWDOWNS if fractions.get(reason, 0.0) > over), None)


_MORE_THAN_ONE_POLL_SECONDS: Final = 1.5
_NEARLY_ALWAYS: Final = 0.99


def least_share(limit: float, seconds: float) -> float:
    """Return the share of the time above which a state counts that polls read at a moment, as throttle reasons are.

    A poll stands for a second, and one poll of a run of three seconds is a third of it, though the state may have held
    for a millisecond. So it must show in more than one poll, or in all of a run that has only one. `limit` is the share
    that counts in a long run.
    """
    return max(limit, min(_MORE_THAN_ONE_POLL_SECONDS / seconds, _NEARLY_ALWAYS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The state of the host and of the GPUs in use; None where the machine does not report the fact."""

    seconds: float
    usable_cores: int = 1  # cores that affinity and quota leave; fractions of CPU time are of these cores
    load_average_mean: float | None = None  # the kernel's average over a minute, of the whole machine
    cpu_mhz_median: float | None = None  # mean clock of the cores; a virtual machine mostly reports its nominal clock
    other_cpu_fraction_mean: float | None = None  # CPU time of other processes
    idle_fraction_mean: float | None = None
    steal_fraction_mean: float | None = None  # CPU time that the hypervisor gave to other virtual machines
    swap_bytes_per_sec_mean: float | None = None  # bytes swapped in and out, of the whole machine
    memory_available_bytes_min: int | None = None  # memory available without swapping
    # "make (pid 4711)" -> CPU time of the busiest processes that are not ours
    other_processes: Mapping[str, float] | None = None
    gpus: tuple[GpuTelemetry, ...] = ()


R = TypeVar("R", "GpuTelemetry", "Telemetry")

# By the end of a field's name; a mean is weighted by time.
_MERGES: Final[Mapping[str, Callable[[Any], float]]] = {"min": min, "max": max, "median": statistics.median}


def merged(several: Iterable[Telemetry | None]) -> Telemetry | None:
    """Merge the telemetry of several polls or runs, means weighted by time; None where there is none."""
    known = list(filter(None, several))
    if not known:
        return None
    of_gpus: dict[str, tuple[list[GpuTelemetry], list[float]]] = {}
    for telemetry in known:
        for gpu in telemetry.gpus:
            states, seconds = of_gpus.setdefault(gpu.uuid, ([], []))
            states.append(gpu)
            seconds.append(telemetry.seconds)
    seconds = [telemetry.seconds for telemetry in known]
    return replace(
        _merged(known, seconds),
        seconds=_rounded(math.fsum(seconds)),
        gpus=tuple(_merged(*rows) for rows in of_gpus.values()),
    )


def _merged(rows: Sequence[R], seconds: Sequence[float]) -> R:
    """The first row, with each optional field merged over the rows that have it."""
    facts: dict[str, Any] = {}
    for field in fields(rows[0]):
        if field.default is not None:
            continue
        values, weights = [], []
        for row, weight in zip(rows, seconds, strict=True):
            if (value := getattr(row, field.name)) is not None:
                values.append(value)
                weights.append(weight)
        facts[field.name] = _merged_fact(field.name, values, weights) if values else None
    return replace(rows[0], **facts)


def _merged_fact(name: str, values: Sequence[Any], seconds: Sequence[float]) -> float | Mapping[str, float]:
    if isinstance(values[0], Mapping):
        sums: defaultdict[str, float] = defaultdict(float)
        for value, weight in zip(values, seconds, strict=True):
            for key, share in value.items():
                sums[key] += share * weight
        largest = sorted(sorted(sums), key=sums.__getitem__, reverse=True)[:_MOST_ENTRIES]
        return {key: _rounded(sums[key] / math.fsum(seconds)) for key in largest}
    merge = _MERGES.get(name.rpartition("_")[2])
    return _rounded(merge(values) if merge else statistics.fmean(values, seconds))


def _rounded(value: float) -> float:
    # Four digits are enough: the history keeps telemetry with each run.
    return value if isinstance(value, int) else float(f"{value:.4g}")
