"""What the machine was like while an attempt ran: the few figures that are kept of its samples.

The end of a field's name says how the samples became one figure: `_median`, `_mean`, `_min`, `_max`.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pytest_tfperf.core.samples import GpuSample, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTelemetry:
    """One GPU; None is what the driver didn't tell.

    Args:
        uuid: the GPU or MIG device.
        samples: how many there were.
        utilisation_fraction_mean: of the time in which any kernel ran.
        throttled_fractions: reason, by `Throttle`'s words -> the fraction of the samples in which it held; harmless
            ones too, but none that never held.
        other_processes: "python (pid 4711)", those that computed on it and aren't ours.
    """

    uuid: str
    samples: int = 1
    temperature_celsius_median: float | None = None
    temperature_celsius_max: int | None = None
    sm_clock_mhz_median: float | None = None
    sm_clock_mhz_min: int | None = None
    memory_clock_mhz_median: float | None = None
    memory_clock_mhz_min: int | None = None
    power_watts_mean: float | None = None
    power_watts_max: float | None = None
    utilisation_fraction_mean: float | None = None
    memory_used_bytes_max: int | None = None
    throttled_fractions: Mapping[str, float] = field(default_factory=dict)
    other_processes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The host and the GPUs that were trained on; None is what the machine didn't tell.

    Args:
        seconds: that the samples cover.
        load_average_mean: of the kernel's average over a minute, the whole machine's.
        cpu_mhz_median, cpu_mhz_min: the mean clock of the usable cores; a virtual machine's says mostly what it was
            sold as.
        other_cpu_fraction_mean: CPU time that wasn't ours, of the usable cores.
        idle_fraction_mean: CPU time that nobody used.
        steal_fraction_mean: CPU time that the hypervisor gave to other virtual machines.
        swap_bytes_per_sec_mean: in and out of swap, the whole machine's.
        memory_available_bytes_min: what could be had without swapping.
    """

    seconds: float
    load_average_mean: float | None = None
    cpu_mhz_median: float | None = None
    cpu_mhz_min: int | None = None
    other_cpu_fraction_mean: float | None = None
    idle_fraction_mean: float | None = None
    steal_fraction_mean: float | None = None
    swap_bytes_per_sec_mean: float | None = None
    memory_available_bytes_min: int | None = None
    gpus: tuple[GpuTelemetry, ...] = ()


def kept_of(samples: Sequence[Sample]) -> Telemetry | None:
    """What is kept of an attempt's samples; None where there are none."""
    if not samples:
        return None
    lengths = [sample.seconds for sample in samples]
    return Telemetry(
        seconds=_short(sum(lengths)),
        gpus=tuple(_gpu(uuid, gpus) for uuid, gpus in _by_uuid(samples).items()),
        **_folded(Telemetry, samples, lengths, _fact_of),
    )


def merged(several: Iterable[Telemetry | None]) -> Telemetry | None:
    """The conditions of several attempts as if they were one; None where none are known.

    A median is then the attempts' median, and a mean weighs each by its length.
    """
    known = [one for one in several if one is not None]
    if not known:
        return None
    lengths = [one.seconds for one in known]
    return Telemetry(
        seconds=_short(sum(lengths)),
        gpus=tuple(_merged_gpu(uuid, gpus) for uuid, gpus in _by_uuid(known).items()),
        **_folded(Telemetry, known, lengths, str),
    )


def _gpu(uuid: str, gpus: Sequence[GpuSample]) -> GpuTelemetry:
    held = Counter(reason.value for gpu in gpus for reason in gpu.throttles or ())
    others = {f"{process.name} (pid {process.pid})" for gpu in gpus for process in gpu.other_processes or ()}
    return GpuTelemetry(
        uuid=uuid,
        samples=len(gpus),
        throttled_fractions={reason: _short(count / len(gpus)) for reason, count in sorted(held.items())},
        other_processes=tuple(sorted(others)),
        **_folded(GpuTelemetry, gpus, [1.0] * len(gpus), _fact_of),
    )


def _merged_gpu(uuid: str, gpus: Sequence[GpuTelemetry]) -> GpuTelemetry:
    weights = [float(gpu.samples) for gpu in gpus]
    reasons = sorted({reason for gpu in gpus for reason in gpu.throttled_fractions})
    return GpuTelemetry(
        uuid=uuid,
        samples=sum(gpu.samples for gpu in gpus),
        throttled_fractions={
            reason: _short(_mean([gpu.throttled_fractions.get(reason, 0.0) for gpu in gpus], weights))
            for reason in reasons
        },
        other_processes=tuple(sorted({process for gpu in gpus for process in gpu.other_processes})),
        **_folded(GpuTelemetry, gpus, weights, str),
    )


def _by_uuid(rows: Sequence[Any]) -> Mapping[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        for gpu in row.gpus:
            found.setdefault(gpu.uuid, []).append(gpu)
    return found


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return statistics.fmean(values, weights) if sum(weights) > 0 else statistics.fmean(values)


_FOLDS: Mapping[str, Callable[[Sequence[float], Sequence[float]], float]] = {
    "median": lambda values, _: statistics.median(values),
    "mean": _mean,
    "min": lambda values, _: min(values),
    "max": lambda values, _: max(values),
}


def _fact_of(name: str) -> str:
    """ "cpu_mhz" for "cpu_mhz_median": a sample's field."""
    return name.rpartition("_")[0]


def _folded(
    cls: type, rows: Sequence[Any], weights: Sequence[float], source: Callable[[str], str]
) -> Mapping[str, Any]:
    """Each field of `cls` whose name ends in a fold, from the rows' field that `source` names; None where none told."""
    found: dict[str, float | None] = {}
    for name in (f.name for f in fields(cls)):
        if (fold := _FOLDS.get(name.rpartition("_")[2])) is None:
            continue
        told = [
            (value, weight)
            for row, weight in zip(rows, weights, strict=True)
            if (value := _of(row, source(name))) is not None
        ]
        found[name] = _short(fold(*map(list, zip(*told, strict=True)))) if told else None
    return found


def _of(row: Any, name: str) -> float | None:
    value: float | None = getattr(row, name)
    return value


def _short(value: float) -> float:
    """Four digits: these are kept with every attempt."""
    return value if isinstance(value, int) else float(f"{value:.4g}")
