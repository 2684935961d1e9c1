"""What is said of where a measurement's time went, and of the machine while it ran."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_tfperf.core.breakdown import Bound, Breakdown, Slower, passes, slower_part
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import Run
from pytest_tfperf.core.step_profile import Input
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry, merged
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.reports.numbers import percent, rate

_GIB = 2**30
_MIB = 2**20
_HARMLESS = "idle"  # a GPU that waits for its input
_WORTH_SAYING = 0.005


def limit(found: Breakdown | None) -> str:
    """For a table: "input 3 %", "compute 87 %", "compute" where the share isn't known, "-" where the limit isn't."""
    if found is None or found.bound is None:
        return "-"
    word, share = found.bound.value.removesuffix("-bound"), found.products_fraction
    if share is None:
        return word
    return f"{word} {_percent(share)}" if share <= 1 else f"{word} >100 %"


def where(record: Measurement) -> Iterator[tuple[str, str]]:
    """Labelled lines: the input, the arithmetic, and after a regression the part that slowed down."""
    verdict = record.verdict
    regressed = verdict is not None and verdict.outcome is Outcome.REGRESSED
    reference = verdict.baseline.reference if verdict and verdict.baseline and regressed else None
    yield from parts(record.breakdown, record.workload, record.throughput.images_per_sec, reference)


def parts(
    found: Breakdown | None, workload: Workload, images_per_sec: float, slower_than: float | None = None
) -> Iterator[tuple[str, str]]:
    """The same of a breakdown; `slower_than`: the throughput that `images_per_sec` fell below."""
    if found is None:
        return
    if text := _input(found):
        yield "input", text
    if found.products_fraction is not None and found.multiply_adds_per_image:
        yield "compute", _compute(found, workload)
    if slower_than is not None and (part := slower_part(found, images_per_sec, slower_than)) is not None:
        yield "slower", _slower(part, found)


def machine(attempts: Iterable[Run]) -> Iterator[tuple[str, str]]:
    """Labelled lines: the host and each GPU, over all of the attempts."""
    found = merged(attempt.conditions for attempt in attempts)
    if found is None:
        return
    if text := _host(found):
        yield "machine", text
    for index, gpu in enumerate(found.gpus):
        if text := _gpu(gpu):
            yield f"GPU {index}", text


def _input(found: Breakdown) -> str:
    if found.input is Input.RESIDENT:
        return "not the limit: one batch lies on the devices"
    if found.input is Input.ALONE:
        return "measured alone: nothing is trained on it"
    if found.pipeline_images_per_sec is None or found.bound is None:
        return ""
    alone = f"the pipeline alone gives {rate(found.pipeline_images_per_sec)} images/s"
    return f"the limit: {alone}" if found.bound is Bound.INPUT else f"not the limit: {alone}"


def _compute(found: Breakdown, workload: Workload) -> str:
    assert found.products_fraction is not None
    assert found.multiply_adds_per_image is not None
    times = passes(workload)
    work = f"{times} x 2 x " if times > 1 else "2 x "
    giga = found.multiply_adds_per_image / times / 1e9
    text = f"{percent(found.products_fraction)} of the rate of matrix products ({work}{giga:.4g} GMAC an image)"
    return f"{text}: the machine was slower when those were timed" if found.products_fraction > 1 else text


def _slower(part: Slower, found: Breakdown) -> str:
    if found.device_data_images_per_sec is None:
        return part.value
    step = f"on data that lies on the devices the same training gives {rate(found.device_data_images_per_sec)} images/s"
    text = f"{part.value}: {step}"
    return f"{text}; together they take the machine from each other" if part is Slower.TOGETHER else text


def _host(found: Telemetry) -> str:
    told = (
        None if found.cpu_mhz_median is None else f"CPU {found.cpu_mhz_median / 1000:.1f} GHz",
        None if found.load_average_mean is None else f"load {found.load_average_mean:.1f}",
        _share(found.other_cpu_fraction_mean, "others {} of the CPU", always=True),
        _share(found.steal_fraction_mean, "steal {}"),
        _rate_of(found.swap_bytes_per_sec_mean, "swapping {:.0f} MiB/s"),
        None
        if found.memory_available_bytes_min is None
        else f"{found.memory_available_bytes_min / _GIB:.1f} GiB of memory left",
    )
    return ", ".join(text for text in told if text)


def _gpu(gpu: GpuTelemetry) -> str:
    told = (
        None if gpu.temperature_celsius_max is None else f"{gpu.temperature_celsius_max} C",
        None if gpu.sm_clock_mhz_median is None else f"{gpu.sm_clock_mhz_median:,.0f} MHz",
        None if gpu.memory_clock_mhz_median is None else f"memory {gpu.memory_clock_mhz_median:,.0f} MHz",
        None if gpu.power_watts_mean is None else f"{gpu.power_watts_mean:.0f} W",
        _share(gpu.utilisation_fraction_mean, "used {} of the time", always=True),
        None if gpu.memory_used_bytes_max is None else f"{gpu.memory_used_bytes_max / _GIB:.1f} GiB",
        *(
            f"{reason.replace('_', ' ')} {_percent(fraction)} of the time"
            for reason, fraction in (gpu.throttled_fractions or {}).items()
            if reason != _HARMLESS
        ),
        f"beside {', '.join(gpu.other_processes)}" if gpu.other_processes else None,
    )
    return ", ".join(text for text in told if text)


def _share(fraction: float | None, text: str, *, always: bool = False) -> str | None:
    if fraction is None or not (always or fraction >= _WORTH_SAYING):
        return None
    return text.format(_percent(fraction))


def _rate_of(bytes_per_sec: float | None, text: str) -> str | None:
    if bytes_per_sec is None or bytes_per_sec < _MIB / 2:
        return None
    return text.format(bytes_per_sec / _MIB)


def _percent(fraction: float) -> str:
    return f"{fraction * 100:.0f} %"
