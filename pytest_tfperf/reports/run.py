"""The words of a run: where the time of a step goes, and the state of the machine meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from pytest_tfperf.core.profile import Bound, Breakdown, Input, Slower
from pytest_tfperf.core.run import Run, StepParts
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry, Throttle, merged
from pytest_tfperf.core.throughput import Throughput
from pytest_tfperf.lines import Line
from pytest_tfperf.reports.numbers import milliseconds, percent, rate, size, whole_percent


def bound_by(breakdown: Breakdown | None) -> str | None:
    """Name the bottleneck of a step for a table: "input", "compute: 87 % of the matmul rate"; None if unknown."""
    if breakdown is None or breakdown.bound is None:
        return None
    word, share, of = breakdown.bound.removesuffix("-bound"), breakdown.products_fraction, "the matmul rate"
    if breakdown.bound is Bound.COMMUNICATION:
        share, of = breakdown.exchange_fraction, "a step"
    return word if share is None or breakdown.bound is Bound.INPUT else f"{word}: {whole_percent(share)} of {of}"


def breakdown_lines(breakdown: Breakdown | None, throughput: Throughput) -> Iterator[Line]:
    """Yield labelled lines about a breakdown; none without one."""
    if breakdown is None:
        return
    unit = f"{throughput.unit}/s"
    if text := _input(breakdown, unit):
        yield Line(text, "input")
    if (share := breakdown.products_fraction) is not None:
        text = f"{percent(share)} of the matmul rate that was measured here"
        faster = "; above 100 %: convolutions multiply less than is counted, or the products were timed too slow"
        yield Line(text + faster if share > 1 else text, "compute")
    if (exchange := breakdown.exchange_fraction) is not None and breakdown.alone_examples_per_sec is not None:
        word = "the limit" if breakdown.bound is Bound.COMMUNICATION else "not the limit"
        alone = rate(breakdown.alone_examples_per_sec)
        text = f"{word}: {whole_percent(exchange)} of a step; without it the ranks would give {alone} {unit}"
        yield Line(text, "communication")
    if text := straggler_text(breakdown):
        yield Line(text, "straggler")
    if breakdown.slower is not None:
        yield Line(_slower(breakdown.slower, breakdown.device_data_examples_per_sec, unit), "slower")


def parts_lines(then: StepParts | None, now: StepParts | None) -> Iterator[Line]:
    """Yield a line about the parts of a program's step, and the one that grew most; none where they are not known."""
    if now is None:
        return
    after = asdict(now)
    if then is None:
        yield Line(", ".join(f"{name} {milliseconds(seconds)}" for name, seconds in after.items()), "step")
        return
    before = asdict(then)
    grown = max(after, key=lambda name: after[name] - before[name])
    texts = [f"{name} {milliseconds(before[name])} -> {milliseconds(seconds)}" for name, seconds in after.items()]
    more = after[grown] - before[grown]
    end = f": {grown} takes {milliseconds(more)} longer" if more > 0 else ""
    yield Line(", ".join(texts) + end, "step")


def not_counted_lines(runs: Sequence[Run]) -> Iterator[Line]:
    """Yield a line about what a program did beside the steps that count."""
    if text := next((run.not_counted for run in reversed(runs) if run.not_counted), ""):
        yield Line(text, "not counted")


def straggler_text(breakdown: Breakdown | None) -> str:
    """Describe the rank that the others wait for; "" where they wait for none."""
    if breakdown is None or (slow := breakdown.straggler) is None:
        return ""
    return (
        f"rank {slow.rank} on {slow.host}: its step alone takes {whole_percent(slow.slower)} longer than the fastest "
        "rank's, and the others wait for it"
    )


def _input(breakdown: Breakdown, unit: str) -> str:
    if breakdown.input is Input.RESIDENT:
        return "not the limit: one batch stays on the devices"
    if breakdown.input is Input.ALONE:
        return "measured alone: nothing is trained"
    if breakdown.input is Input.OWN or breakdown.pipeline_examples_per_sec is None or breakdown.bound is None:
        return ""
    word = "the limit" if breakdown.bound is Bound.INPUT else "not the limit"
    return f"{word}: the pipeline alone gives {rate(breakdown.pipeline_examples_per_sec)} {unit}"


def _slower(part: Slower, device_data_examples_per_sec: float | None, unit: str) -> str:
    if device_data_examples_per_sec is None or part is Slower.EXCHANGE:
        return part.value
    text = f"{part.value}: on device data the same training gives {rate(device_data_examples_per_sec)} {unit}"
    return f"{text}, so pipeline and training compete for the machine" if part is Slower.TOGETHER else text


# The machine's state

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
    if host.swap_bytes_per_sec_mean is not None and host.swap_bytes_per_sec_mean >= 2**19:
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
