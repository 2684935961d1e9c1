"""The words of a breakdown of a step's time: the input, the arithmetic, and the part that slowed down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_tfperf.core.profile import Bound, Breakdown, Input, Slower
from pytest_tfperf.core.throughput import Throughput
from pytest_tfperf.lines import Line
from pytest_tfperf.reports.numbers import percent, rate, whole_percent

_BOUNDS: Final = {
    Bound.INPUT: "input",
    Bound.COMPUTE: "compute",
    Bound.STEP: "step",
    Bound.COMMUNICATION: "communication",
}


def bound_by(breakdown: Breakdown | None) -> str | None:
    """Name the bottleneck of a step for a table: "input", "compute: 87 % of the matmul rate"; None if unknown."""
    if breakdown is None or breakdown.bound is None:
        return None
    word, share, of = _BOUNDS[breakdown.bound], breakdown.products_fraction, "the matmul rate"
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
