"""What is asked of workers, and how often."""

from __future__ import annotations

from typing import Any

from pytest_tfperf.bench.step_parts import Examiner
from pytest_tfperf.core.step_profile import Input, StepProfile
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.workers.launcher import Job

CPU = Devices(kind=DeviceKind.CPU, count=4)
FOUR_GPUS = Devices(kind=DeviceKind.GPU, count=4, gpu_uuids=("GPU-1", "GPU-2", "GPU-3", "GPU-4"))
SLOW = 1.0  # images/s, far below what matrix products allow
SPLIT_GPU = Devices(kind=DeviceKind.GPU, count=4, gpu_uuids=("GPU-1",), split=True)


class Played:
    """A worker that was asked and has finished; any other use is an error."""

    def __init__(self, input: Input = Input.RESIDENT, error: Exception | None = None) -> None:
        self.asked: list[dict[str, bool]] = []
        self._input = input
        self._error = error

    def examine(self, **asked: bool) -> StepProfile:
        self.asked.append(asked)
        if self._error is not None:
            raise self._error
        rate = 1e9 if asked["products"] and self._input is not Input.ALONE else None
        work = 5 if asked["multiply_adds"] and self._input is not Input.ALONE else None
        return StepProfile(input=self._input, products_multiply_adds_per_sec=rate, forward_multiply_adds=work)


def job(devices: Devices = CPU, **workload: Any) -> Job:
    return Job(workload=Workload(**{"model": "trivial", "batch_size": 1} | workload), devices=devices)


def asked(*jobs: Job, run: Any = None) -> list[tuple[bool, bool]]:
    """Products and multiply-adds, for each job of a session."""
    run, examiner = run or Played(), Examiner()
    for one in jobs:
        examiner.parts(run, one, 2, SLOW)
    return [(a["products"], a["multiply_adds"]) for a in run.asked]


def rate_on(devices: Devices) -> float | None:
    run: Any = Played()
    found = Examiner().parts(run, job(devices), 2, SLOW)
    assert found is not None
    return found.products_multiply_adds_per_sec


def test_a_session_asks_for_products_and_for_a_models_multiply_adds_once() -> None:
    assert asked(job(), job(), job(model="resnet20")) == [(True, True), (False, False), (False, True)]


def test_each_precision_has_products_of_its_own() -> None:
    assert asked(job(), job(precision="mixed_bfloat16")) == [(True, True), (True, False)]


def test_what_was_asked_before_is_still_said() -> None:
    run: Any = Played()
    examiner = Examiner()
    assert examiner.parts(run, job(), 2, SLOW) == examiner.parts(run, job(), 2, SLOW)


def test_a_pipeline_alone_answers_for_no_model() -> None:
    assert asked(job(), job(), run=Played(Input.ALONE)) == [(True, True), (True, True)]


def test_gpus_add_up() -> None:
    assert rate_on(FOUR_GPUS) == 4e9


def test_devices_that_share_their_cores_do_not_add_up() -> None:
    assert (rate_on(CPU), rate_on(SPLIT_GPU)) == (1e9, 1e9)


def test_a_worker_that_dies_over_it_costs_nothing_but_the_answer() -> None:
    run: Any = Played(error=MeasurementError("the worker was killed"))
    assert Examiner().parts(run, job(), 2, SLOW) is None


def test_a_worker_that_died_leaves_the_question_to_the_next() -> None:
    assert asked(job(), job(), run=Played(error=MeasurementError("killed"))) == [(True, True), (True, True)]


class Products:
    """A worker of a model of 1 multiply-add; each time it is asked, its matrix products have the next rate."""

    def __init__(self, *rates: float | Exception) -> None:
        self.left = list(rates)

    def examine(self, *, products: bool, multiply_adds: bool) -> StepProfile:
        found = self.left.pop(0) if products else None
        if isinstance(found, Exception):
            raise found
        return StepProfile(input=Input.RESIDENT, products_multiply_adds_per_sec=found, forward_multiply_adds=1)


def rates_of(examiner: Examiner, run: Any, *images_per_sec: float) -> list[float | None]:
    """What is said of runs that came one after the other."""
    found = [examiner.parts(run, job(forward_only=True), 2, value) for value in images_per_sec]
    return [parts.products_multiply_adds_per_sec if parts else None for parts in found]


def test_a_step_that_outdoes_the_products_has_them_timed_again() -> None:
    assert rates_of(Examiner(), Products(5.0, 8.0), 6.0) == [8.0]


def test_a_step_within_the_products_has_them_timed_once() -> None:
    assert rates_of(Examiner(), Products(5.0), 4.0, 5.0) == [5.0, 5.0]


def test_a_session_keeps_its_best_products() -> None:
    assert rates_of(Examiner(), Products(5.0, 3.0, 8.0), 6.0, 7.0, 7.0) == [5.0, 8.0, 8.0]


def test_a_worker_that_dies_over_the_products_leaves_what_was_known() -> None:
    assert rates_of(Examiner(), Products(5.0, MeasurementError("killed")), 6.0) == [5.0]


def test_devices_that_add_up_are_outdone_together_only() -> None:
    run: Any = Products(5.0)
    found = Examiner().parts(run, job(FOUR_GPUS, forward_only=True), 2, 19.0)
    assert found is not None
    assert found.products_multiply_adds_per_sec == 20.0
