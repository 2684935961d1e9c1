"""Whether a result is INVALID, for disturbed runs, or a loss or a figure that is no number.

Three disturbances are detected elsewhere: a run that never settled in `judging/steady_state.py`, and GPUs in use before
a run or a driver that stopped answering in `bench/disturbance_guard.py`. Only the code that takes or reads runs knows
that no run of a test counts; it then calls `invalid(None)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import overload

from pytest_tfperf.core.disturbance import Disturbance, DisturbanceKind, DisturbanceLimits
from pytest_tfperf.core.run import Run
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry, least_share
from pytest_tfperf.core.throughput import Throughput
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict


@overload
def invalid(throughput: None) -> Verdict: ...
@overload
def invalid(throughput: Throughput) -> Verdict | None: ...


def invalid(throughput: Throughput | None) -> Verdict | None:
    """Return the verdict INVALID on a throughput that means nothing; None where it can be judged.

    Args:
        throughput: of the runs that count; None where each fresh run was disturbed, so that none counts.
    """
    if throughput is not None and not throughput.is_diverged:
        return None
    return Verdict(outcome=Outcome.INVALID, reason=Reason.DISTURBED if throughput is None else Reason.DIVERGED)


def unusable(values: Iterable[float | None]) -> Reason | None:
    """Return why a figure can't be judged: a run lacks it (None), or a value is not finite. None where it can."""
    known = list(values)
    if None in known:
        return Reason.NOT_MEASURED
    return None if all(isfinite(value) for value in known if value is not None) else Reason.NOT_FINITE


def disturbance_in(telemetry: Telemetry, limits: DisturbanceLimits) -> Disturbance | None:
    """Return the first disturbance above its limit, of a GPU or else of the host; None if there is none.

    Smaller disturbances show in the spread of windows and of repeated runs.
    """
    on_gpus = [_gpu_disturbance(gpu, telemetry.seconds, limits) for gpu in telemetry.gpus]
    return next(filter(None, on_gpus), None) or _host_disturbance(telemetry, limits)


def load_of(runs: Iterable[Run]) -> list[Disturbance]:
    """Return the disturbances of runs that count only because the user set other limits than ours, one for each run."""
    disturbances = [disturbance_in(run.telemetry, DisturbanceLimits()) for run in runs if run.telemetry is not None]
    return [disturbance for disturbance in disturbances if disturbance is not None]


def busiest(shares: Mapping[str, float] | None) -> tuple[str, float]:
    """Return the process, or GPU, with the largest share; "" and 0 without any."""
    return max((shares or {}).items(), key=lambda item: item[1], default=("", 0.0))


def _gpu_disturbance(gpu: GpuTelemetry, seconds: float, limits: DisturbanceLimits) -> Disturbance | None:
    if (throttle := gpu.slowed_down_by(least_share(limits.gpu_samples_fraction, seconds))) is not None:
        return Disturbance(
            DisturbanceKind.GPU_SLOWED_DOWN, gpu=gpu.uuid, throttle=throttle, celsius=gpu.temperature_celsius_max
        )
    process, used = busiest(gpu.other_processes)
    if used > limits.gpu_utilisation_fraction:
        return Disturbance(DisturbanceKind.GPU_SHARED, used, culprit=process, gpu=gpu.uuid)
    return None


def _host_disturbance(host: Telemetry, limits: DisturbanceLimits) -> Disturbance | None:
    others, idle = host.other_cpu_fraction_mean or 0.0, host.idle_fraction_mean or 0.0
    # Other processes that only use idle cores do not slow us down.
    if others > limits.other_cpu_fraction and idle <= limits.idle_fraction:
        process, _ = busiest(host.other_processes)
        return Disturbance(DisturbanceKind.OTHER_PROCESSES, others, culprit=process, cores=host.usable_cores)
    stolen = host.steal_fraction_mean or 0.0
    if stolen > limits.steal_fraction:
        return Disturbance(DisturbanceKind.STEAL, stolen, cores=host.usable_cores)
    swapped = host.swap_bytes_per_sec_mean or 0.0
    if swapped > limits.swap_bytes_per_sec:
        return Disturbance(DisturbanceKind.SWAPPING, swapped)
    return None
