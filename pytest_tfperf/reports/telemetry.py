"""The machine's state during runs in words: a line for the host and a line for each GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_tfperf.core.run import Run
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry, Throttle, merged
from pytest_tfperf.lines import Line
from pytest_tfperf.reports.numbers import size, whole_percent

_MIB = 2**20

HOST = "machine"
"""The label of the host's line."""


def telemetry_lines(runs: Iterable[Run]) -> Iterator[Line]:
    """Yield labelled lines about the host and each GPU over all runs; none without telemetry."""
    return state_lines(merged(run.telemetry for run in runs))


def state_lines(telemetry: Telemetry | None) -> Iterator[Line]:
    """Yield labelled lines about the host and each GPU; none without telemetry."""
    if telemetry is None:
        return
    if text := ", ".join(_host(telemetry)):
        yield Line(text, HOST)
    for index, gpu in enumerate(telemetry.gpus):
        if text := ", ".join(_gpu(gpu)):
            yield Line(text, f"GPU {index}")


_SLOWDOWNS = {
    Throttle.SW_THERMAL: "slowed down because of heat",
    Throttle.HW_THERMAL: "slowed down because of heat",
    Throttle.HW_POWER_BRAKE: "slowed down by the power brake, which the power supply triggered",
    Throttle.HW_SLOWDOWN: "slowed down by its hardware because of heat or power",
}


def slowed_down(by: Throttle, celsius: int | None) -> str:
    """Describe why a GPU is slowed down: "slowed down because of heat (91 C)"."""
    return _SLOWDOWNS[by] if celsius is None else f"{_SLOWDOWNS[by]} ({celsius} C)"


def _host(host: Telemetry) -> Iterator[str]:
    if host.cpu_mhz_median is not None:
        yield f"CPU {host.cpu_mhz_median / 1000:.1f} GHz"
    if host.load_average_mean is not None:
        yield f"load {host.load_average_mean:.1f}"
    if host.other_cpu_fraction_mean is not None:
        busiest = max(host.other_processes, key=host.other_processes.__getitem__) if host.other_processes else ""
        most = f" (most of it {busiest})" if busiest and host.other_cpu_fraction_mean >= 0.01 else ""
        yield f"other processes {whole_percent(host.other_cpu_fraction_mean)} of the CPU{most}"
    if host.steal_fraction_mean is not None and host.steal_fraction_mean >= 0.005:
        yield f"steal {whole_percent(host.steal_fraction_mean)}"
    if host.swap_bytes_per_sec_mean is not None and host.swap_bytes_per_sec_mean >= _MIB / 2:
        yield f"swapping {size(host.swap_bytes_per_sec_mean)}/s"


def _gpu(gpu: GpuTelemetry) -> Iterator[str]:
    if gpu.temperature_celsius_max is not None:
        yield f"{gpu.temperature_celsius_max} C"
    if gpu.sm_clock_mhz_median is not None:
        yield f"{gpu.sm_clock_mhz_median:,.0f} MHz"
    if gpu.power_watts_mean is not None:
        yield f"{gpu.power_watts_mean:.0f} W"
    for reason, fraction in (gpu.throttled_fractions or {}).items():
        if reason != Throttle.IDLE:  # the GPU only waited for its input
            yield f"{reason.replace('_', ' ')} {whole_percent(fraction)} of the time"
    if gpu.other_processes:
        yield f"shared with {', '.join(gpu.other_processes)}"
