"""Whether other work took as much from one side of a pair as from the other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.disturbance import Disturbance, DisturbanceKind, DisturbanceLimits
from pytest_tfperf.core.run import Pair, Run
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry, Throttle
from pytest_tfperf.judging.validity import are_alike, bias, disturbance_in, tells_nothing, unevenness
from tests.helpers.measurements import run_at

LIMITS = DisturbanceLimits()
MIB = 2**20


def beside(others: float = 0.0, **more: Any) -> Run:
    """A run during which other processes used this fraction of the cores, as the engine leaves it."""
    telemetry = Telemetry(seconds=3.0, usable_cores=2, other_cpu_fraction_mean=others, **more)
    return run_at(1000.0, telemetry=telemetry, disturbance=disturbance_in(telemetry, LIMITS))


def gpu(**more: Any) -> Run:
    return beside(gpus=(GpuTelemetry(uuid="GPU-1", **more),))


SLOWED = gpu(throttled_fractions={Throttle.SW_THERMAL.value: 0.9})
DISTURBED = {
    "other processes": beside(0.6),
    "steal": beside(steal_fraction_mean=0.6),
    "swapping": beside(swap_bytes_per_sec_mean=8.0 * MIB),
    "a shared GPU": gpu(other_processes={"python (pid 1)": 0.6}),
    "a slowed GPU": SLOWED,
    "a GPU in use before": run_at(1000.0, disturbance=Disturbance(DisturbanceKind.GPU_SHARED, 0.6)),
}
loads = st.floats(0, 1)


@given(loads, loads)
def test_what_both_sides_had_alike_changes_nothing(others: float, stolen: float) -> None:
    both = beside(others, steal_fraction_mean=stolen)
    assert (unevenness(both, both, LIMITS), are_alike(both, both, LIMITS)) == (0.0, True)


@given(loads, loads)
def test_two_undisturbed_runs_are_alike(one: float, other: float) -> None:
    a, b = (beside(LIMITS.other_cpu_fraction * part) for part in (one, other))
    assert (a.disturbance, b.disturbance, are_alike(a, b, LIMITS)) == (None, None, True)


@given(loads, loads)
def test_the_order_of_the_sides_turns_only_the_sign(one: float, other: float) -> None:
    a, b = beside(one), beside(other)
    assert unevenness(a, b, LIMITS) == -unevenness(b, a, LIMITS)
    assert are_alike(a, b, LIMITS) is are_alike(b, a, LIMITS)


def test_a_run_that_got_half_of_the_time_may_be_half_as_fast() -> None:
    assert unevenness(beside(0.0), beside(0.5), LIMITS) == pytest.approx(-math.log(2))


def test_what_an_undisturbed_run_lost_makes_its_pair_less_certain() -> None:
    others = LIMITS.other_cpu_fraction / 2
    assert unevenness(beside(0.0), beside(others), LIMITS) == pytest.approx(math.log(1 - others))


def test_a_program_that_mostly_waits_gets_the_little_that_it_needs_on_any_machine() -> None:
    assert are_alike(beside(0.95), beside(0.99), LIMITS)


@pytest.mark.parametrize("disturbed", DISTURBED.values(), ids=DISTURBED)
def test_a_run_that_was_disturbed_is_not_like_one_that_was_not(disturbed: Run) -> None:
    assert not are_alike(beside(), disturbed, LIMITS)
    assert unevenness(beside(), disturbed, LIMITS) < 0 < unevenness(disturbed, beside(), LIMITS)


def test_as_much_more_as_an_undisturbed_run_may_lose_is_alike() -> None:
    assert are_alike(beside(0.5), beside(0.6), LIMITS)
    assert not are_alike(beside(0.5), beside(0.7), LIMITS)


def test_work_on_idle_cores_takes_nothing() -> None:
    assert unevenness(beside(0.0), beside(0.5, idle_fraction_mean=0.4), LIMITS) == 0


def test_a_disturbance_that_the_user_accepts_leaves_runs_alike() -> None:
    assert are_alike(beside(), beside(0.9), replace(LIMITS, other_cpu_fraction=1.0))


# What several pairs show

SWINGS = (-0.9, 0.2, -1.3, 0.7, 1.1, -0.6)


def uneven(log_ratios: Sequence[float], unevenness: Sequence[float]) -> list[Pair]:
    return [
        Pair(beside(), beside(), log_ratio, 0.01, amount)
        for log_ratio, amount in zip(log_ratios, unevenness, strict=True)
    ]


def test_ratios_that_agree_whatever_was_taken_have_no_bias() -> None:
    assert bias(uneven([-0.18, -0.181, -0.18, -0.179, -0.18, -0.18], SWINGS)) < 0.001


def test_ratios_that_follow_what_was_taken_may_be_biased_by_all_of_its_mean() -> None:
    assert bias(uneven(SWINGS, SWINGS)) == pytest.approx(abs(statistics.fmean(SWINGS)))


@given(st.floats(-1.3, 1.3))
def test_one_side_that_always_lost_more_may_be_slower_by_all_of_it(taken: float) -> None:
    assert bias(uneven([-0.3, -0.31, -0.3, -0.29, -0.3, -0.3], [taken] * 6)) == pytest.approx(abs(taken))


# Pairs that tell nothing

NOT_STEADY, SILENT = (Disturbance(kind) for kind in (DisturbanceKind.NOT_STEADY, DisturbanceKind.DRIVER_SILENT))


def pair_with(b: Run) -> Pair:
    return Pair(beside(), b, 0.0, 0.01)


@pytest.mark.parametrize("disturbance", [NOT_STEADY, SILENT])
def test_a_run_that_did_not_settle_or_lost_its_driver_is_like_no_other(disturbance: Disturbance) -> None:
    run = replace(beside(), disturbance=disturbance)
    assert not are_alike(run, run, LIMITS)


@pytest.mark.parametrize("disturbance", [NOT_STEADY, SILENT])
def test_a_run_that_did_not_settle_by_itself_or_lost_its_driver_tells_nothing(disturbance: Disturbance) -> None:
    assert tells_nothing(pair_with(replace(beside(), disturbance=disturbance)))


def test_a_run_that_did_not_settle_beside_work_that_came_and_went_tells_something() -> None:
    polls = tuple(Telemetry(seconds=1.0, other_cpu_fraction_mean=others) for others in (0.0, 0.4, 0.0))
    assert not tells_nothing(pair_with(replace(beside(0.13), polls=polls, disturbance=NOT_STEADY)))


@pytest.mark.parametrize("b", DISTURBED.values(), ids=DISTURBED)
def test_any_other_disturbed_pair_tells_something(b: Run) -> None:
    assert not tells_nothing(pair_with(b))
