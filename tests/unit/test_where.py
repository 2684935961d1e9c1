"""What is said of where the time went, and of the machine."""

from __future__ import annotations

from typing import Any

from measurements import WORKLOAD, attempt, baseline, comparison, record, throughput

from pytest_tfperf.core.breakdown import Bound, Breakdown
from pytest_tfperf.core.comparison import Measured
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import Trial
from pytest_tfperf.core.step_profile import Input
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry
from pytest_tfperf.core.verdict import Outcome, Tolerance, Verdict
from pytest_tfperf.reports import comparisons
from pytest_tfperf.reports.message import message, spoilt
from pytest_tfperf.reports.table import table
from pytest_tfperf.reports.where import limit

HOST = Telemetry(
    seconds=4.0, cpu_mhz_median=2893.0, load_average_mean=2.13, other_cpu_fraction_mean=0.031, steal_fraction_mean=0.001
)
GPU = GpuTelemetry(
    uuid="GPU-1",
    temperature_celsius_max=68,
    sm_clock_mhz_median=1755.0,
    memory_clock_mhz_median=3201.0,
    power_watts_mean=290.4,
    utilisation_fraction_mean=0.97,
    memory_used_bytes_max=12 * 2**30,
    throttled_fractions={"idle": 0.5, "power_cap": 0.4},
    other_processes=("python (pid 4711)",),
)


def judged(outcome: Outcome, images_per_sec: float = 1000.0, **more: Any) -> Measurement:
    verdict = Verdict(
        outcome=outcome, baseline=baseline(2000.0), change=images_per_sec / 2000 - 1, tolerance=Tolerance()
    )
    return record(throughput(images_per_sec), **{"verdict": verdict} | more)


def fetched(bound: Bound = Bound.COMPUTE, **more: Any) -> Breakdown:
    return Breakdown(**{"input": Input.FETCHED, "bound": bound, "pipeline_images_per_sec": 9800.0} | more)


def said(label: str, found: Measurement) -> str:
    lines = message(found).splitlines()
    return next((line[14:] for line in lines if line.startswith(f"  {label:<11} ")), "")


def in_weather(conditions: Telemetry | None, outcome: Outcome = Outcome.REGRESSED) -> Measurement:
    return judged(outcome, trial=Trial((attempt([0.064], conditions=conditions),)))


def test_a_pipeline_that_is_not_the_limit_reads_as_in_the_design() -> None:
    found = judged(Outcome.PASS, breakdown=fetched())
    assert said("input", found) == "not the limit: the pipeline alone gives 9,800 images/s"


def test_a_pipeline_that_is_the_limit_says_so() -> None:
    found = judged(Outcome.PASS, breakdown=fetched(Bound.INPUT, pipeline_images_per_sec=1010.0))
    assert said("input", found) == "the limit: the pipeline alone gives 1,010 images/s"


def test_a_pipeline_of_unknown_rate_is_not_spoken_of() -> None:
    assert said("input", judged(Outcome.PASS, breakdown=Breakdown(input=Input.FETCHED))) == ""


def test_the_share_of_the_arithmetic_says_how_it_is_counted() -> None:
    where = fetched(multiply_adds_per_image=3 * 3_858_000_000, products_fraction=0.871)
    found = judged(Outcome.PASS, breakdown=where)
    assert said("compute", found) == "87.1 % of the rate of matrix products (3 x 2 x 3.858 GMAC an image)"


def test_a_share_beyond_the_possible_says_what_is_wrong_with_it() -> None:
    found = judged(Outcome.PASS, breakdown=fetched(multiply_adds_per_image=3_000_000_000, products_fraction=1.4))
    assert said("compute", found).endswith("(3 x 2 x 1 GMAC an image): the machine was slower when those were timed")
    assert limit(found.breakdown) == "compute >100 %"


def test_inference_counts_one_pass() -> None:
    where = fetched(multiply_adds_per_image=3_858_000_000, products_fraction=0.5)
    found = judged(Outcome.PASS, breakdown=where, workload=WORKLOAD.with_(forward_only=True))
    assert said("compute", found).endswith("(2 x 3.858 GMAC an image)")


def test_a_result_without_a_baseline_says_where_its_time_went() -> None:
    found = record(verdict=Verdict(outcome=Outcome.NO_BASELINE), breakdown=fetched())
    assert said("input", found).startswith("not the limit")


def test_a_regression_names_the_part_that_slowed_down() -> None:
    where = fetched(Bound.INPUT, pipeline_images_per_sec=1010.0, device_data_images_per_sec=2900.0)
    assert said("slower", judged(Outcome.REGRESSED, breakdown=where)) == (
        "the input pipeline: on data that lies on the devices the same training gives 2,900 images/s"
    )


def test_parts_that_are_slow_only_together_are_told_so() -> None:
    where = fetched(device_data_images_per_sec=2900.0)
    assert said("slower", judged(Outcome.REGRESSED, breakdown=where)) == (
        "neither part by itself: on data that lies on the devices the same training gives 2,900 images/s; "
        "together they take the machine from each other"
    )


def test_a_pass_has_no_slower_part() -> None:
    assert said("slower", judged(Outcome.PASS, breakdown=fetched(device_data_images_per_sec=2900.0))) == ""


def test_a_split_that_failed_names_no_part() -> None:
    assert said("slower", judged(Outcome.REGRESSED, breakdown=fetched())) == ""


def test_the_host_is_told_in_one_line() -> None:
    assert said("machine", in_weather(HOST)) == "CPU 2.9 GHz, load 2.1, others 3 % of the CPU"


def test_a_gpu_is_told_in_one_line() -> None:
    assert said("GPU 0", in_weather(Telemetry(seconds=1.0, gpus=(GPU,)))) == (
        "68 C, 1,755 MHz, memory 3,201 MHz, 290 W, used 97 % of the time, 12.0 GiB, "
        "power cap 40 % of the time, beside python (pid 4711)"
    )


def test_a_gpu_that_tells_nothing_has_no_line() -> None:
    assert said("GPU 0", in_weather(Telemetry(seconds=1.0, gpus=(GpuTelemetry(uuid="GPU-1"),)))) == ""


def test_trouble_on_the_host_is_added() -> None:
    trouble = Telemetry(
        seconds=1.0, steal_fraction_mean=0.21, swap_bytes_per_sec_mean=3 * 2**20, memory_available_bytes_min=2**29
    )
    assert said("machine", in_weather(trouble)) == "steal 21 %, swapping 3 MiB/s, 0.5 GiB of memory left"


def test_a_pass_says_nothing_of_the_machine() -> None:
    assert said("machine", in_weather(HOST, Outcome.PASS)) == ""


def test_an_invalid_result_without_a_baseline_tells_of_the_machine() -> None:
    trial = Trial((attempt([0.064], conditions=HOST),))
    found = record(trial=trial, verdict=Verdict(outcome=Outcome.INVALID, reason="the loss is nan"))
    assert said("machine", found).startswith("CPU 2.9 GHz")


def test_a_measurement_that_was_given_up_tells_of_the_machine() -> None:
    assert spoilt("INVALID: busy", [attempt([0.064], conditions=HOST)]) == (
        "INVALID: busy\n  machine     CPU 2.9 GHz, load 2.1, others 3 % of the CPU"
    )


def test_the_table_says_what_each_result_is_bound_by() -> None:
    where = fetched(products_fraction=0.869)
    rows = [judged(Outcome.PASS, breakdown=where), judged(Outcome.PASS, breakdown=fetched(Bound.INPUT)), record()]
    assert [limit(row.breakdown) for row in rows] == ["compute 87 %", "input", "-"]
    assert "limit" in table(rows)[0]


def test_of_a_slower_side_b_the_part_is_named_that_is_slower_than_a() -> None:
    where = fetched(pipeline_images_per_sec=910.0, device_data_images_per_sec=2000.0)
    b = Measured(workload=WORKLOAD, throughput=throughput(900.0), environment={}, breakdown=where)
    assert "  b's slower  the input pipeline: on data that lies" in comparisons.message(comparison(b=b))


def test_a_side_b_that_is_not_slower_has_no_slower_part() -> None:
    where = fetched(pipeline_images_per_sec=910.0, device_data_images_per_sec=2000.0)
    b = Measured(workload=WORKLOAD, throughput=throughput(900.0), environment={}, breakdown=where)
    assert "b's slower" not in comparisons.message(comparison(b=b, outcome=Outcome.PASS))


def sides() -> dict[str, Measured]:
    """a waits for its input, and b computes."""
    a = fetched(Bound.INPUT, pipeline_images_per_sec=910.0)
    b = fetched(pipeline_images_per_sec=2000.0, products_fraction=0.5, multiply_adds_per_image=10**9)
    given = {"workload": WORKLOAD, "throughput": throughput(900.0), "environment": {}}
    return {"a": Measured(**given, breakdown=a), "b": Measured(**given, breakdown=b)}


def test_a_comparison_says_whose_input_is_the_limit() -> None:
    lines = comparisons.message(comparison(**sides(), outcome=Outcome.PASS)).splitlines()
    assert [line[2:13].strip() for line in lines if "'s " in line] == ["a's input", "b's input", "b's compute"]


def test_a_table_of_comparisons_has_each_sides_limit_beside_its_throughput() -> None:
    heading, row = comparisons.table([comparison(**sides())])
    assert " ".join(heading.split()).startswith("workload topology a images/s limit b images/s limit b / a")
    assert row.index("input") < row.index("compute 50 %")


def test_a_table_of_comparisons_that_know_no_limit_leaves_it_out() -> None:
    assert "limit" not in comparisons.table([comparison()])[0]
