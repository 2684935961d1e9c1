"""What messages say about the breakdown of a step's time, and about the machine's telemetry."""

from __future__ import annotations

from typing import Any

import pytest
from measurements import run, throughput

from pytest_tfperf.core.breakdown import Bound, Breakdown, Straggler
from pytest_tfperf.core.profile import Input
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry
from pytest_tfperf.reports.breakdown import bound_by, breakdown_lines
from pytest_tfperf.reports.telemetry import telemetry_lines

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


ON_DEVICE_DATA = "on device data the same training gives 2,900 images/s"


@pytest.mark.parametrize(
    ("found", "label", "text"),
    [
        (fetched(), "input", "not the limit: the pipeline alone gives 9,800 images/s"),
        (
            fetched(Bound.INPUT, pipeline_examples_per_sec=1010.0),
            "input",
            "the limit: the pipeline alone gives 1,010 images/s",
        ),
        (fetched(None), "input", None),
        (Breakdown(input=Input.RESIDENT), "input", "not the limit: one batch stays on the devices"),
        (Breakdown(input=Input.ALONE), "input", "measured alone: nothing is trained"),
        (
            fetched(products_fraction=0.871),
            "compute",
            "87.1 % of the matmul rate that was measured here",
        ),
        (
            fetched(products_fraction=1.4),
            "compute",
            "140.0 % of the matmul rate that was measured here; "
            "above 100 %: convolutions multiply less than is counted, or the products were timed too slow",
        ),
        (
            fetched(Bound.INPUT, pipeline_examples_per_sec=1010.0, device_data_examples_per_sec=2900.0),
            "slower",
            f"the input pipeline: {ON_DEVICE_DATA}",
        ),
        (
            fetched(device_data_examples_per_sec=2900.0),
            "slower",
            f"neither part by itself: {ON_DEVICE_DATA}, so pipeline and training compete for the machine",
        ),
        (fetched(), "slower", None),
        (None, "input", None),
    ],
)
def test_a_line_after_a_regression_from_2000_to_1000(found: Breakdown | None, label: str, text: str | None) -> None:
    assert dict(breakdown_lines(found, throughput(1000.0), slower_than=2000.0)).get(label) == text


def of_ranks(bound: Bound, exchange: float, alone: float, **more: Any) -> Breakdown:
    known = {"exchange_fraction": exchange, "alone_examples_per_sec": alone, **more}
    return Breakdown(input=Input.RESIDENT, bound=bound, **known)


@pytest.mark.parametrize(
    ("found", "label", "text"),
    [
        (
            of_ranks(Bound.COMMUNICATION, 0.63, 2700.0),
            "communication",
            "the limit: 63 % of a step; without it the ranks would give 2,700 images/s",
        ),
        (
            of_ranks(Bound.COMPUTE, 0.1, 1111.0),
            "communication",
            "not the limit: 10 % of a step; without it the ranks would give 1,111 images/s",
        ),
        (
            of_ranks(Bound.COMPUTE, 0.1, 1111.0, straggler=Straggler(rank=1, host="nodeb", slower=0.4)),
            "straggler",
            "rank 1 on nodeb: its step alone takes 40 % longer than the fastest rank's, and the others wait for it",
        ),
        (of_ranks(Bound.COMPUTE, 0.1, 1111.0), "straggler", None),
        (of_ranks(Bound.COMMUNICATION, 0.63, 2700.0), "slower", "the communication between the ranks"),
        (fetched(alone_examples_per_sec=2700.0, device_data_examples_per_sec=2900.0), "slower", None),
        (of_ranks(Bound.COMPUTE, 0.1, 1111.0), "slower", "the training step"),
        (fetched(), "communication", None),
    ],
)
def test_a_line_about_several_ranks_after_a_regression_from_2000_to_1000(
    found: Breakdown, label: str, text: str | None
) -> None:
    assert dict(breakdown_lines(found, throughput(1000.0), slower_than=2000.0)).get(label) == text


def test_without_a_regression_nothing_is_called_slower() -> None:
    assert "slower" not in dict(breakdown_lines(fetched(device_data_examples_per_sec=2900.0), throughput(1000.0)))


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


@pytest.mark.parametrize(
    ("telemetry", "lines"),
    [
        (None, {}),
        (HOST, {"machine": "CPU 2.9 GHz, load 2.1, other processes 3 % of the CPU"}),
        (
            TROUBLED_HOST,
            {"machine": "other processes 40 % of the CPU (most of it make (pid 4711)), steal 21 %, swapping 3 MiB/s"},
        ),
        (
            Telemetry(seconds=1.0, gpus=(GpuTelemetry(uuid="GPU-0"), GPU)),
            {"GPU 1": "68 C, 1,755 MHz, 290 W, power cap 40 % of the time, shared with python (pid 4711)"},
        ),
    ],
    ids=["nothing", "quiet host", "trouble", "a GPU beside one that tells nothing"],
)
def test_the_machine_is_told_in_a_line_for_the_host_and_each_gpu(
    telemetry: Telemetry | None, lines: dict[str, str]
) -> None:
    assert dict(telemetry_lines([run(telemetry=telemetry)])) == lines
