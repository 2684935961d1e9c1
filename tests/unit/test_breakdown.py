"""Input-bound or compute-bound, how much of the devices' arithmetic, and which part slowed down."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measurements import WORKLOAD, attempt

from pytest_tfperf.core.breakdown import Bound, Breakdown, Slower, breakdown, slower_part
from pytest_tfperf.core.run import Trial
from pytest_tfperf.core.step_profile import Input, StepProfile

rates = st.floats(1, 1e6)


def of(images_per_sec: float, workload: Any = WORKLOAD, **parts: Any) -> Breakdown:
    made = StepProfile(**{"input": Input.FETCHED} | parts)
    found = breakdown(Trial((attempt([0.1], parts=made),)), images_per_sec, workload)
    assert found is not None
    return found


def test_a_log_says_nothing_of_where_its_time_went() -> None:
    assert breakdown(Trial((attempt([0.1]),)), 100.0, WORKLOAD) is None


def test_training_at_its_pipelines_rate_is_input_bound() -> None:
    assert of(198.0, pipeline_images_per_sec=200.0).bound is Bound.INPUT


def test_training_well_below_its_pipelines_rate_is_compute_bound() -> None:
    assert of(140.0, pipeline_images_per_sec=200.0).bound is Bound.COMPUTE


def test_a_pipeline_that_takes_most_of_the_cores_is_the_limit() -> None:
    share = {"pipeline_core_seconds_per_image": 0.01, "cores": 2}
    assert of(140.0, pipeline_images_per_sec=200.0, **share).bound is Bound.INPUT


def test_a_pipeline_that_sleeps_takes_no_cores() -> None:
    share = {"pipeline_core_seconds_per_image": 1e-5, "cores": 2}
    assert of(140.0, pipeline_images_per_sec=200.0, **share).bound is Bound.COMPUTE


def test_a_pipeline_beside_gpus_takes_none_of_them() -> None:
    assert of(140.0, pipeline_images_per_sec=200.0, pipeline_core_seconds_per_image=1.0).bound is Bound.COMPUTE


def test_data_on_the_devices_is_compute_bound_by_construction() -> None:
    assert of(140.0, input=Input.RESIDENT).bound is Bound.COMPUTE


def test_a_pipeline_alone_is_input_bound_by_construction() -> None:
    assert of(140.0, input=Input.ALONE).bound is Bound.INPUT


def test_a_pipeline_of_unknown_rate_leaves_the_limit_open() -> None:
    assert of(140.0).bound is None


def test_training_passes_a_model_three_times() -> None:
    found = of(100.0, forward_multiply_adds=4_000_000, products_multiply_adds_per_sec=2e9)
    assert found.products_fraction == pytest.approx(3 * 4e6 * 100 / 2e9)


def test_inference_passes_it_once() -> None:
    work = {"forward_multiply_adds": 4_000_000, "products_multiply_adds_per_sec": 2e9}
    found = of(100.0, WORKLOAD.with_(forward_only=True), **work)
    assert found.products_fraction == pytest.approx(4e6 * 100 / 2e9)


def test_workers_that_were_not_asked_are_left_out() -> None:
    asked = attempt([0.1], parts=StepProfile(input=Input.FETCHED, pipeline_images_per_sec=200.0))
    found = breakdown(Trial((attempt([0.1]), asked)), 199.0, WORKLOAD)
    assert found is not None
    assert found.bound is Bound.INPUT


@given(rates, rates, st.floats(1, 10))
def test_a_faster_pipeline_is_never_more_of_a_limit(now: float, pipeline: float, faster: float) -> None:
    if of(now, pipeline_images_per_sec=pipeline).bound is Bound.COMPUTE:
        assert of(now, pipeline_images_per_sec=pipeline * faster).bound is Bound.COMPUTE


def split(pipeline: float | None, step: float | None, input: Input = Input.FETCHED) -> Slower | None:
    """100 images/s instead of 200."""
    found = Breakdown(input=input, pipeline_images_per_sec=pipeline, device_data_images_per_sec=step)
    return slower_part(found, 100.0, 200.0)


@pytest.mark.parametrize(
    ("pipeline", "step", "wanted"),
    [
        pytest.param(101, 500, Slower.PIPELINE, id="slow-pipeline"),
        pytest.param(9800, 102, Slower.STEP, id="slow-step"),
        pytest.param(110, 105, Slower.BOTH, id="both-slow"),
        pytest.param(210, 250, Slower.TOGETHER, id="they-share-the-cores"),
        pytest.param(None, 500, None, id="no-pipeline-rate"),
        pytest.param(101, None, None, id="the-split-failed"),
    ],
)
def test_a_part_below_what_the_whole_gave_before_has_slowed_down(
    pipeline: float | None, step: float | None, wanted: Slower | None
) -> None:
    assert split(pipeline, step) is wanted


def test_without_a_pipeline_only_the_step_can_have_slowed_down() -> None:
    assert split(None, None, Input.RESIDENT) is Slower.STEP


def test_a_pipeline_that_is_measured_alone_has_slowed_down_itself() -> None:
    assert split(None, None, Input.ALONE) is Slower.PIPELINE
