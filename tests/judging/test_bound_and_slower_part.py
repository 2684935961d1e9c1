"""What bounds a workload, how much of the arithmetic rate was used, which rank lags, and which part slowed down."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.profile import Bound, Breakdown, Input, RankStep, Slower, StepProfile, Straggler
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.judging.breakdown import breakdown, matmul_change, slower_part
from tests.helpers.measurements import baseline, measurement, verdict

WORKLOAD = Workload(model="resnet50", batch_size=64)
rates = st.floats(1, 1e6)


def run(profile: StepProfile | None = None) -> Run:
    return Run(windows=(Window(1, 0.1),), examples_per_step=64, step_profile=profile)


def of(examples_per_sec: float, workload: Workload = WORKLOAD, **figures: Any) -> Breakdown:
    profile = StepProfile(**{"input": Input.FETCHED} | figures)
    found = breakdown([run(), run(profile)], examples_per_sec, workload)  # the first was not profiled
    assert found is not None
    return found


def test_runs_that_were_not_profiled_have_no_breakdown() -> None:
    assert breakdown([run()], 100.0, WORKLOAD) is None


@pytest.mark.parametrize(
    ("examples_per_sec", "figures", "bound"),
    [
        pytest.param(198.0, {"pipeline_examples_per_sec": 200.0}, Bound.INPUT, id="at-the-pipelines-rate"),
        pytest.param(140.0, {"pipeline_examples_per_sec": 200.0}, Bound.COMPUTE, id="well-below-it"),
        pytest.param(
            140.0,
            {"pipeline_examples_per_sec": 200.0, "pipeline_core_seconds_per_example": 0.01, "cores": 2},
            Bound.INPUT,
            id="the-pipeline-takes-most-of-the-cores",
        ),
        pytest.param(
            140.0,
            {"pipeline_examples_per_sec": 200.0, "pipeline_core_seconds_per_example": 1e-5, "cores": 2},
            Bound.COMPUTE,
            id="a-pipeline-that-sleeps",
        ),
        pytest.param(
            140.0,
            {"pipeline_examples_per_sec": 200.0, "pipeline_core_seconds_per_example": 1.0},
            Bound.COMPUTE,
            id="gpus-train",
        ),
        pytest.param(140.0, {}, None, id="rate-unknown"),
        pytest.param(140.0, {"input": Input.RESIDENT}, Bound.COMPUTE, id="batch-on-the-devices"),
        pytest.param(140.0, {"input": Input.RESIDENT, "exchanges": True}, Bound.STEP, id="devices-exchange-gradients"),
        pytest.param(
            140.0,
            {"input": Input.RESIDENT, "exchanges": True, "ranks": (RankStep(host="a", seconds=0.45),)},
            Bound.COMPUTE,
            id="ranks-whose-exchange-is-short",
        ),
        pytest.param(
            140.0, {"pipeline_examples_per_sec": 200.0, "exchanges": True}, Bound.STEP, id="well-below-it-on-devices"
        ),
        pytest.param(140.0, {"input": Input.ALONE}, Bound.INPUT, id="pipeline-without-training"),
    ],
)
def test_the_limit_is_input_or_compute(examples_per_sec: float, figures: dict[str, Any], bound: Bound | None) -> None:
    assert of(examples_per_sec, **figures).bound is bound


@given(rates, rates, st.floats(1, 10))
def test_a_faster_pipeline_never_becomes_the_limit(now: float, pipeline: float, faster: float) -> None:
    if of(now, pipeline_examples_per_sec=pipeline).bound is Bound.COMPUTE:
        assert of(now, pipeline_examples_per_sec=pipeline * faster).bound is Bound.COMPUTE


@pytest.mark.parametrize(("forward_only", "passes"), [(False, 3), (True, 1)])
def test_training_takes_three_times_the_arithmetic_of_inference(forward_only: bool, passes: int) -> None:
    figures = {"forward_multiply_adds": 4_000_000, "products_multiply_adds_per_sec": 2e9}
    found = of(100.0, WORKLOAD.with_(forward_only=forward_only), **figures)
    assert found.products_fraction == pytest.approx(passes * 4e6 * 100 / 2e9)


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
    found = Breakdown(input=input, pipeline_examples_per_sec=pipeline, device_data_examples_per_sec=step)
    assert slower_part(found, 100.0, 200.0) is slower


# Several ranks


def ranks(*seconds: float) -> tuple[RankStep, ...]:
    """What ranks on nodea, nodeb, ... need for a step each by itself."""
    return tuple(RankStep(host=f"node{letter}", seconds=s) for letter, s in zip("abcd", seconds, strict=False))


def of_ranks(examples_per_sec: float, *seconds: float, **more: Any) -> Breakdown:
    """Of 64 images a step, which stay on the devices."""
    return of(examples_per_sec, ranks=ranks(*seconds), **{"input": Input.RESIDENT} | more)


def test_without_an_exchange_all_ranks_would_be_as_fast_as_the_slowest() -> None:
    found = of_ranks(1000.0, 0.016, 0.032)
    assert (found.alone_examples_per_sec, found.exchange_fraction) == (2000.0, 0.5)


def test_a_single_process_exchanges_nothing() -> None:
    found = of(1000.0, input=Input.RESIDENT)
    assert (found.alone_examples_per_sec, found.exchange_fraction, found.straggler) == (None, None, None)


@pytest.mark.parametrize(
    ("examples_per_sec", "more", "bound"),
    [
        (1900.0, {}, Bound.COMMUNICATION),
        (2100.0, {}, Bound.COMPUTE),
        (1900.0, {"input": Input.FETCHED, "pipeline_examples_per_sec": 1901.0}, Bound.COMMUNICATION),
        (2100.0, {"input": Input.FETCHED, "pipeline_examples_per_sec": 2101.0}, Bound.INPUT),
    ],
)
def test_the_communication_is_the_limit_where_it_takes_most_of_a_step(
    examples_per_sec: float, more: dict[str, Any], bound: Bound
) -> None:
    assert of_ranks(examples_per_sec, 0.016, 0.016, **more).bound is bound  # 4,000 images/s without it


@given(rates, st.lists(st.floats(1e-6, 10), min_size=2, max_size=4))
def test_an_exchange_takes_no_less_than_nothing_and_no_more_than_the_step(now: float, seconds: list[float]) -> None:
    fraction = of_ranks(now, *seconds).exchange_fraction
    assert fraction is not None
    assert 0 <= fraction <= 1


def test_the_rank_that_the_others_wait_for_is_named_with_its_host() -> None:
    found = of_ranks(1000.0, 0.010, 0.014, 0.0125).straggler
    assert found == Straggler(rank=1, host="nodeb", slower=pytest.approx(0.4))


@pytest.mark.parametrize("seconds", [(0.010, 0.0109), (0.010, 0.010)])
def test_ranks_that_are_nearly_as_fast_as_each_other_have_no_straggler(seconds: tuple[float, ...]) -> None:
    assert of_ranks(1000.0, *seconds).straggler is None


def test_a_rank_that_lagged_in_one_run_of_three_is_no_straggler() -> None:
    steps = [ranks(0.010, 0.010), ranks(0.010, 0.020), ranks(0.010, 0.010)]
    found = breakdown([run(StepProfile(input=Input.RESIDENT, ranks=one)) for one in steps], 1000.0, WORKLOAD)
    assert found is not None
    assert found.straggler is None


def test_a_first_run_whose_ranks_were_not_timed_hides_nothing_of_the_others() -> None:
    steps = [(), ranks(0.010, 0.020), ranks(0.010, 0.020)]
    found = breakdown([run(StepProfile(input=Input.RESIDENT, ranks=one)) for one in steps], 1000.0, WORKLOAD)
    assert found is not None
    assert (found.alone_examples_per_sec, found.straggler is not None) == (3200.0, True)


@pytest.mark.parametrize(
    ("alone", "more", "slower"),
    [
        pytest.param(210.0, {"bound": Bound.COMMUNICATION}, Slower.EXCHANGE, id="the-exchange-is-most-of-the-step"),
        pytest.param(180.0, {"bound": Bound.COMPUTE}, None, id="before-they-gave-more-alone-but-not-known-how-much"),
        pytest.param(
            210.0,
            {"bound": Bound.COMMUNICATION, "straggler": Straggler(rank=1, host="b", slower=0.4)},
            None,
            id="they-wait-for-a-straggler",
        ),
        pytest.param(105.0, {"bound": Bound.COMPUTE}, Slower.STEP, id="the-ranks-themselves-are-slower"),
        pytest.param(210.0, {"pipeline_examples_per_sec": 105.0}, Slower.PIPELINE, id="the-pipeline-is-slower"),
        pytest.param(105.0, {"pipeline_examples_per_sec": 105.0}, Slower.BOTH, id="both-are-slower"),
    ],
)
def test_what_slowed_down_in_several_ranks_is_named_where_their_steps_alone_tell(
    alone: float, more: dict[str, Any], slower: Slower | None
) -> None:
    found = Breakdown(input=Input.FETCHED, alone_examples_per_sec=alone, **more)
    assert slower_part(found, 100.0, 200.0) is slower


# Another machine of the same name


def at_matmul_rate(now: float | None, then: str) -> Measurement:
    runs = (run(StepProfile(input=Input.RESIDENT, products_multiply_adds_per_sec=now)),)
    return measurement(runs=runs, verdict=verdict(baseline=baseline(environment=f"cuda=12 {then}".strip())))


@pytest.mark.parametrize(
    ("tests", "change"),
    [
        ([(7e10, "matmul=1e+11")] * 3, -0.3),
        ([(1.3e11, "matmul=1e+11")], 0.3),
        ([(1.15e11, "matmul=1e+11")], None),
        ([(7e10, "matmul=1e+11"), (1e11, "matmul=1e+11"), (1e11, "matmul=1e+11")], None),
        ([(7e10, "")], None),
        ([(None, "matmul=1e+11")], None),
        ([(7e10, "matmul=fast"), (7e10, "matmul=0")], None),
    ],
    ids=["slower", "faster", "within noise", "one of three", "an older row", "not measured", "damaged rows"],
)
def test_a_matmul_rate_that_differs_from_the_rows_by_more_than_noise_is_told(
    tests: list[tuple[float | None, str]], change: float | None
) -> None:
    found = matmul_change(at_matmul_rate(now, then) for now, then in tests)
    assert found == (None if change is None else pytest.approx(change))


def test_a_test_that_was_not_judged_tells_no_other_matmul_rate() -> None:
    assert matmul_change([replace(at_matmul_rate(7e10, "matmul=1e+11"), verdicts=())]) is None
