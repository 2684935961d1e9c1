"""What messages say about the breakdown of a step's time, and about the machine's telemetry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pytest_tfperf.core.profile import Bound, Breakdown, Input, Straggler
from pytest_tfperf.core.run import Run, StepParts
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry
from pytest_tfperf.judging.breakdown import of_a_slowdown
from pytest_tfperf.reports.run import bound_by, breakdown_lines, not_counted_lines, parts_lines, telemetry_lines
from tests.helpers.expected import SameTexts
from tests.helpers.measurements import run, throughput

HOST = Telemetry(
    seconds=4.0, cpu_mhz_median=2893.0, load_average_mean=2.13, other_cpu_fraction_mean=0.031, steal_fraction_mean=0.001
)
TROUBLED_HOST = Telemetry(
    seconds=1.0,
    other_cpu_fraction_mean=0.4,
    other_processes={"cron (pid 2)": 0.01, "make (pid 4711)": 0.38},
    steal_fraction_mean=0.21,
    swap_bytes_per_sec_mean=3 * 2**20,
)
GPU = GpuTelemetry(
    uuid="GPU-1",
    temperature_celsius_max=68,
    sm_clock_mhz_median=1755.0,
    power_watts_mean=290.4,
    throttled_fractions={"idle": 0.5, "power_cap": 0.4},
    other_processes={"python (pid 4711)": 0.2},
)


def fetched(bound: Bound | None = Bound.COMPUTE, **more: Any) -> Breakdown:
    return Breakdown(**{"input": Input.FETCHED, "bound": bound, "pipeline_examples_per_sec": 9800.0} | more)


def of_ranks(bound: Bound, exchange: float, alone: float, **more: Any) -> Breakdown:
    known = {"exchange_fraction": exchange, "alone_examples_per_sec": alone, **more}
    return Breakdown(input=Input.RESIDENT, bound=bound, **known)


BREAKDOWNS = {
    "compute is the limit": fetched(),
    "the input is the limit": fetched(
        Bound.INPUT, pipeline_examples_per_sec=1010.0, device_data_examples_per_sec=2900.0
    ),
    "nothing is known of the limit": fetched(None),
    "one batch stays": Breakdown(input=Input.RESIDENT),
    "the input alone": Breakdown(input=Input.ALONE),
    "a share of the matmul rate": fetched(products_fraction=0.871),
    "more than the matmul rate": fetched(products_fraction=1.4),
    "both parts compete": fetched(device_data_examples_per_sec=2900.0),
    "the ranks' exchange is the limit": of_ranks(Bound.COMMUNICATION, 0.63, 2700.0),
    "a straggler": of_ranks(Bound.COMPUTE, 0.1, 1111.0, straggler=Straggler(rank=1, host="nodeb", slower=0.4)),
    "ranks, and data from the host": fetched(alone_examples_per_sec=2700.0, device_data_examples_per_sec=2900.0),
    "ranks that train": of_ranks(Bound.COMPUTE, 0.1, 1111.0),
    "nothing": None,
}


def test_a_breakdown_after_a_regression_from_2000_to_1000(same_texts: SameTexts) -> None:
    after = {case: found and of_a_slowdown(found, 1000.0, 2000.0) for case, found in BREAKDOWNS.items()}
    texts = {case: breakdown_lines(found, throughput(1000.0)) for case, found in after.items()}
    same_texts("breakdowns", texts)


def test_without_a_regression_nothing_is_called_slower() -> None:
    lines = breakdown_lines(fetched(device_data_examples_per_sec=2900.0), throughput(1000.0))
    assert [line.label for line in lines] == ["input"]


@pytest.mark.parametrize(
    ("found", "cell"),
    [
        (None, None),
        (fetched(None), None),
        (fetched(Bound.INPUT, products_fraction=0.2), "input"),
        (fetched(products_fraction=0.869), "compute: 87 % of the matmul rate"),
        (of_ranks(Bound.COMMUNICATION, 0.63, 2700.0, products_fraction=0.2), "communication: 63 % of a step"),
    ],
)
def test_what_a_table_says_of_the_bound(found: Breakdown | None, cell: str | None) -> None:
    assert bound_by(found) == cell


MACHINES = {
    "nothing": None,
    "quiet host": HOST,
    "trouble": TROUBLED_HOST,
    "a GPU beside one that tells nothing": Telemetry(seconds=1.0, gpus=(GpuTelemetry(uuid="GPU-0"), GPU)),
}


def test_the_machine_is_told_in_a_line_for_the_host_and_each_gpu(same_texts: SameTexts) -> None:
    texts = {case: telemetry_lines([run(telemetry=telemetry)]) for case, telemetry in MACHINES.items()}
    same_texts("machines", texts)


def a_run(**parts: float) -> Run:
    return run(step_parts=StepParts(**parts))


def told(then: Sequence[Run], now: Sequence[Run]) -> list[str]:
    return [line.text for line in parts_lines(StepParts.of(then), StepParts.of(now))]


def test_the_part_of_a_programs_step_that_grew_is_named() -> None:
    then = [a_run(input=0.001, compute=0.02, other=0.0)] * 2
    now = [a_run(input=0.0012, compute=0.031, other=0.0)] * 2
    assert told(then, now) == [
        "input 1 ms -> 1.2 ms, compute 20 ms -> 31 ms, other 0 ms -> 0 ms: compute takes 11 ms longer"
    ]


def test_the_parts_of_a_step_are_told_without_another_side() -> None:
    now = [a_run(input=0.001, compute=0.02, other=0.0004)]
    assert told([], now) == ["input 1 ms, compute 20 ms, other 0.4 ms"]


def test_what_a_program_did_beside_its_steps_is_told() -> None:
    (line,) = not_counted_lines([run(not_counted="20 steps of other optimizers"), run()])
    assert (line.label, line.text) == ("not counted", "20 steps of other optimizers")


def test_nothing_is_told_of_a_run_whose_batches_are_not_seen() -> None:
    assert told([], [run()]) == []
