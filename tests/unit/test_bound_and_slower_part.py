"""Input-bound or compute-bound, how much of the arithmetic rate was used, and which part slowed down."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.breakdown import Bound, Breakdown, Slower, breakdown, slower_part
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.step_profile import Input, StepProfile
from pytest_tfperf.core.workload import Workload

WORKLOAD = Workload(model="resnet50", batch_size=64)
rates = st.floats(1, 1e6)


def run(profile: StepProfile | None = None) -> Run:
    return Run(windows=(Window(1, 0.1),), images_per_step=64, step_profile=profile)


def of(images_per_sec: float, workload: Workload = WORKLOAD, **figures: Any) -> Breakdown:
    profile = StepProfile(**{"input": Input.FETCHED} | figures)
    found = breakdown([run(), run(profile)], images_per_sec, workload)  # the first was not profiled
    assert found is not None
    return found


def test_runs_that_were_not_profiled_have_no_breakdown() -> None:
    assert breakdown([run()], 100.0, WORKLOAD) is None


@pytest.mark.parametrize(
    ("images_per_sec", "figures", "bound"),
    [
        pytest.param(198.0, {"pipeline_images_per_sec": 200.0}, Bound.INPUT, id="at-the-pipelines-rate"),
        pytest.param(140.0, {"pipeline_images_per_sec": 200.0}, Bound.COMPUTE, id="well-below-it"),
        pytest.param(
            140.0,
            {"pipeline_images_per_sec": 200.0, "pipeline_core_seconds_per_image": 0.01, "cores": 2},
            Bound.INPUT,
            id="the-pipeline-takes-most-of-the-cores",
        ),
        pytest.param(
            140.0,
            {"pipeline_images_per_sec": 200.0, "pipeline_core_seconds_per_image": 1e-5, "cores": 2},
            Bound.COMPUTE,
            id="a-pipeline-that-sleeps",
        ),
        pytest.param(
            140.0,
            {"pipeline_images_per_sec": 200.0, "pipeline_core_seconds_per_image": 1.0},
            Bound.COMPUTE,
            id="gpus-train",
        ),
        pytest.param(140.0, {}, None, id="rate-unknown"),
        pytest.param(140.0, {"input": Input.RESIDENT}, Bound.COMPUTE, id="batch-on-the-devices"),
        pytest.param(140.0, {"input": Input.ALONE}, Bound.INPUT, id="pipeline-without-training"),
    ],
)
def test_the_limit_is_input_or_compute(images_per_sec: float, figures: dict[str, Any], bound: Bound | None) -> None:
    assert of(images_per_sec, **figures).bound is bound


@given(rates, rates, st.floats(1, 10))
def test_a_faster_pipeline_never_becomes_the_limit(now: float, pipeline: float, faster: float) -> None:
    if of(now, pipeline_images_per_sec=pipeline).bound is Bound.COMPUTE:
        assert of(now, pipeline_images_per_sec=pipeline * faster).bound is Bound.COMPUTE


@pytest.mark.parametrize(("forward_only", "passes"), [(False, 3), (True, 1)])
def test_training_takes_three_times_the_arithmetic_of_inference(forward_only: bool, passes: int) -> None:
    figures = {"forward_multiply_adds": 4_000_000, "products_multiply_adds_per_sec": 2e9}
    found = of(100.0, WORKLOAD.with_(forward_only=forward_only), **figures)
    assert found.products_fraction == pytest.approx(passes * 4e6 * 100 / 2e9)
    assert found.multiply_adds_per_image == passes * 4_000_000


@pytest.mark.parametrize(
    ("input", "pipeline", "step", "slower"),
    [
        pytest.param(Input.FETCHED, 101, 500, Slower.PIPELINE, id="slow-pipeline"),
        pytest.param(Input.FETCHED, 9800, 102, Slower.STEP, id="slow-step"),
        pytest.param(Input.FETCHED, 110, 105, Slower.BOTH, id="both-slow"),
        pytest.param(Input.FETCHED, 210, 250, Slower.TOGETHER, id="they-share-the-cores"),
        pytest.param(Input.FETCHED, None, 500, None, id="no-pipeline-rate"),
        pytest.param(Input.FETCHED, 101, None, None, id="no-rate-on-device-data"),
        pytest.param(Input.RESIDENT, None, None, Slower.STEP, id="no-pipeline"),
        pytest.param(Input.ALONE, None, None, Slower.PIPELINE, id="no-training"),
    ],
)
def test_a_part_that_gives_less_than_both_gave_before_has_slowed_down(
    input: Input, pipeline: float | None, step: float | None, slower: Slower | None
) -> None:
    found = Breakdown(input=input, pipeline_images_per_sec=pipeline, device_data_images_per_sec=step)
    assert slower_part(found, 100.0, 200.0) is slower
