"""What is asked of a worker after its last window, and what is asked only once in a session."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_tfperf.bench.windows import StepProfiler
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.profile import Input, StepProfile
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.errors import MeasurementError
from tests.helpers.played import TRIVIAL, PlayedRun

CPUS = Devices(kind=DeviceKind.CPU, count=2)
GPUS = Devices(kind=DeviceKind.GPU, count=4, gpu_uuids=("GPU-1", "GPU-2", "GPU-3", "GPU-4"))
KNOWN = StepProfile(input=Input.RESIDENT, forward_multiply_adds=1000, products_multiply_adds_per_sec=1e6)


def worker(profile: StepProfile = KNOWN) -> PlayedRun:
    return PlayedRun(step_seconds=lambda _: 0.01, profile=profile)


def profiled(
    profiler: StepProfiler, of: PlayedRun, devices: Devices = CPUS, examples_per_sec: float = 1.0, **workload: Any
) -> StepProfile | None:
    job = Job(workload=TRIVIAL.with_(**workload), devices=devices, cores=8)
    return profiler.profile(of, job, examples_per_sec)


def test_matrix_products_and_multiply_adds_are_asked_for_once_in_a_session() -> None:
    profiler, first, second = StepProfiler(), worker(), worker(StepProfile(input=Input.RESIDENT))
    profiled(profiler, first)
    found = profiled(profiler, second)
    assert (first.asked_for_profile, second.asked_for_profile) == ([(True, True)], [(False, False)])
    assert found is not None
    assert (found.forward_multiply_adds, found.products_multiply_adds_per_sec) == (1000, 1e6)


def test_another_precision_has_another_rate_of_matrix_products() -> None:
    profiler, second = StepProfiler(), worker()
    profiled(profiler, worker())
    profiled(profiler, second, precision="mixed_bfloat16")
    assert second.asked_for_profile == [(True, False)]


def test_another_model_has_other_multiply_adds() -> None:
    profiler, second = StepProfiler(), worker()
    profiled(profiler, worker())
    profiled(profiler, second, model="resnet20")
    assert second.asked_for_profile == [(False, True)]


@pytest.mark.parametrize(("devices", "times"), [(CPUS, 1), (GPUS, 4)])
def test_the_rate_of_one_device_counts_for_each_that_computes_by_itself(devices: Devices, times: int) -> None:
    found = profiled(StepProfiler(), worker(), devices)
    assert found is not None
    assert found.products_multiply_adds_per_sec == times * 1e6


def test_cores_are_known_only_where_cpus_train() -> None:
    on_cpus, on_gpus = profiled(StepProfiler(), worker()), profiled(StepProfiler(), worker(), GPUS)
    assert (on_cpus and on_cpus.cores, on_gpus and on_gpus.cores) == (8, None)


def test_a_step_that_exceeds_the_rate_has_it_timed_again() -> None:
    of = worker()
    profiled(StepProfiler(), of, examples_per_sec=1e6)
    assert of.asked_for_profile == [(True, True), (True, False)]


def test_a_pipeline_alone_has_no_model_to_ask_about() -> None:
    profiler = StepProfiler()
    assert profiled(profiler, worker(StepProfile(input=Input.ALONE))) == StepProfile(input=Input.ALONE)


def test_a_worker_that_fails_now_costs_only_the_profile() -> None:
    class Dying(PlayedRun):
        def profile_step(self, *, matrix_products: bool, multiply_adds: bool) -> StepProfile:
            raise MeasurementError("the worker died")

    assert profiled(StepProfiler(), Dying(step_seconds=lambda _: 0.01)) is None
