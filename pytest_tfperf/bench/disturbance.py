"""Watches the machine during a run and judges whether something disturbed it.

The guard is for what no statistics can repair. Below the limits, the windows' spread and repeated runs cover it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from pytest_tfperf.core.disturbance import Disturbance, DisturbanceKind, DisturbanceLimits
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry, Throttle
from pytest_tfperf.hardware.sampler import Sampler

_MIB = 2**20

# The exact reasons first: HW_SLOWDOWN is set together with each of the others.
_SLOWDOWNS = {
    Throttle.SW_THERMAL: "slowed down because of heat",
    Throttle.HW_THERMAL: "slowed down because of heat",
    Throttle.HW_POWER_BRAKE: "slowed down by the power brake, which the power supply triggered",
    Throttle.HW_SLOWDOWN: "slowed down by its hardware because of heat or power",
}


class Sampling(Protocol):
    """What the guard needs of a sampler."""

    hung: bool

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> Telemetry | None:
        """End; what was sampled since `start`."""
        ...


@dataclass(slots=True)
class Observation:
    """What happened on the machine beside a run; filled when the `watching` block ends.

    Args:
        disturbance: the first disturbance above its limit; None where there was none.
        environment: power limit facts of the GPUs, see `power_facts`.
        telemetry: what was sampled; None where the run was too short.
    """

    disturbance: Disturbance | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    telemetry: Telemetry | None = None


class DisturbanceGuard:
    """Watches runs; pytest and all processes that it started count as ours.

    Args:
        limits: above which a disturbance counts.
        sampler: makes the sampler for these GPU UUIDs.
    """

    def __init__(self, limits: DisturbanceLimits, sampler: Callable[[Sequence[str]], Sampling] = Sampler) -> None:
        self._limits = limits
        self._sampler = sampler

    @contextmanager
    def watching(self, gpu_uuids: Iterable[str] = ()) -> Iterator[Observation]:
        """Watch the host and these GPUs until the block ends."""
        observation, uuids = Observation(), tuple(gpu_uuids)
        sampler = self._sampler(uuids)
        sampler.start()
        try:
            yield observation
        finally:
            observation.telemetry = sampler.stop()
        if observation.telemetry is not None:
            observation.disturbance = disturbance_in(observation.telemetry, self._limits)
            observation.environment = power_facts(observation.telemetry, self._limits)
        if observation.disturbance is None and sampler.hung:
            observation.disturbance = _silent(uuids)


def disturbance_in(telemetry: Telemetry, limits: DisturbanceLimits) -> Disturbance | None:
    """The first disturbance above its limit: of a GPU, then of the host; None where there is none."""
    for gpu in telemetry.gpus:
        if found := _gpu_slowed_down(gpu, limits) or _gpu_shared(gpu, limits):
            return found
    return _other_processes(telemetry, limits) or _steal(telemetry, limits) or _swapping(telemetry, limits)


def power_facts(telemetry: Telemetry, limits: DisturbanceLimits) -> dict[str, str]:
    """`gpu_power_limit` ("300W") and `gpu_power_capped` ("yes" or "no"), as far as the driver reports them.

    A power cap is part of the machine's setup and no disturbance. It is recorded, so that a change of it shows.
    """
    facts = {}
    watts = {gpu.power_limit_watts_max for gpu in telemetry.gpus if gpu.power_limit_watts_max is not None}
    if watts:
        facts["gpu_power_limit"] = "+".join(f"{limit}W" for limit in sorted(watts))
    capped = [
        gpu.throttled_fractions.get(Throttle.POWER_CAP, 0.0) > limits.gpu_samples_fraction
        for gpu in telemetry.gpus
        if gpu.throttled_fractions is not None
    ]
    if capped:
        facts["gpu_power_capped"] = "yes" if any(capped) else "no"
    return facts


def _gpu_slowed_down(gpu: GpuTelemetry, limits: DisturbanceLimits) -> Disturbance | None:
    held = gpu.throttled_fractions or {}
    for reason, text in _SLOWDOWNS.items():
        if held.get(reason, 0.0) > limits.gpu_samples_fraction:
            hottest = gpu.temperature_celsius_max
            heat = "" if hottest is None else f" ({hottest} C)"
            return Disturbance(DisturbanceKind.GPU_SLOWED_DOWN, f"{_short(gpu.uuid)} was {text}{heat}")
    return None


def _gpu_shared(gpu: GpuTelemetry, limits: DisturbanceLimits) -> Disturbance | None:
    process, used = _largest(gpu.other_processes)
    if used <= limits.gpu_utilisation_fraction:
        return None
    fact = f"{process} also ran on {_short(gpu.uuid)} and used up to {_percent(used)} of it"
    return Disturbance(DisturbanceKind.GPU_SHARED, fact)


def _other_processes(telemetry: Telemetry, limits: DisturbanceLimits) -> Disturbance | None:
    used = telemetry.other_cpu_fraction_mean or 0.0
    # Other processes that only take idle cores take nothing from us.
    if used <= limits.other_cpu_fraction or (telemetry.idle_fraction_mean or 0.0) > limits.idle_fraction:
        return None
    process, _ = _largest(telemetry.other_processes)
    most = f", the busiest was {process}" if process else ""
    fact = f"other processes used {_percent(used)} of {_cores(telemetry)}{most}"
    return Disturbance(DisturbanceKind.OTHER_PROCESSES, fact)


def _steal(telemetry: Telemetry, limits: DisturbanceLimits) -> Disturbance | None:
    stolen = telemetry.steal_fraction_mean or 0.0
    if stolen <= limits.steal_fraction:
        return None
    fact = f"the hypervisor gave {_percent(stolen)} of {_cores(telemetry)} to other virtual machines (steal time)"
    return Disturbance(DisturbanceKind.STEAL, fact)


def _swapping(telemetry: Telemetry, limits: DisturbanceLimits) -> Disturbance | None:
    rate, free = telemetry.swap_bytes_per_sec_mean or 0.0, telemetry.memory_available_bytes_min
    if rate <= limits.swap_bytes_per_sec:
        return None
    left = "" if free is None else f", with {free / _MIB:,.0f} MiB of memory available"
    return Disturbance(DisturbanceKind.SWAPPING, f"the machine swapped {rate / _MIB:.0f} MiB/s{left}")


def _silent(gpu_uuids: Sequence[str]) -> Disturbance:
    who = "the GPU driver" if gpu_uuids else "the kernel"
    fact = f"{who} stopped answering during the run; dmesg may show why (for a GPU: NVRM: Xid)"
    return Disturbance(DisturbanceKind.DRIVER_SILENT, fact)


def _largest(shares: Mapping[str, float] | None) -> tuple[str, float]:
    return max((shares or {}).items(), key=lambda item: item[1], default=("", 0.0))


def _cores(telemetry: Telemetry) -> str:
    return "1 core" if telemetry.usable_cores == 1 else f"{telemetry.usable_cores} cores"


def _percent(fraction: float) -> str:
    return f"{fraction * 100:.0f} %"


def _short(uuid: str) -> str:
    """ "GPU-3b1c…": enough to find it in `nvidia-smi -L`."""
    kind, dash, rest = uuid.partition("-")
    return f"{kind}{dash}{rest[:4]}…" if len(rest) > 4 else uuid
