"""What is asked of workers, and how often."""

from __future__ import annotations

from typing import Any

from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.launchers import Job
from pytest_tfperf.measuring.examiner import Examiner
from pytest_tfperf.parts import Input, Parts
from pytest_tfperf.topology import DeviceKind, Devices
from pytest_tfperf.workload import Workload

CPU = Devices(kind=DeviceKind.CPU, count=4)
FOUR_GPUS = Devices(kind=DeviceKind.GPU, count=4, gpu_uuids=("GPU-1", "GPU-2", "GPU-3", "GPU-4"))
SPLIT_GPU = Devices(kind=DeviceKind.GPU, count=4, gpu_uuids=("GPU-1",), split=True)


class Played:
    """A worker that was asked and has finished; any other use is an error."""

    def __init__(self, input: Input = Input.RESIDENT, error: Exception | None = None) -> None:
        self.asked: list[dict[str, bool]] = []
        self._input = input
        self._error = error

    def examine(self, **asked: bool) -> Parts:
        self.asked.append(asked)
        if self._error is not None:
            raise self._error
        rate = 1e9 if asked["products"] and self._input is not Input.ALONE else None
        work = 5 if asked["multiply_adds"] and self._input is not Input.ALONE else None
        return Parts(input=self._input, products_multiply_adds_per_sec=rate, forward_multiply_adds=work)


def job(devices: Devices = CPU, **workload: Any) -> Job:
    return Job(workload=Workload(**{"model": "trivial", "batch_size": 1} | workload), devices=devices)


def asked(*jobs: Job, run: Any = None) -> list[tuple[bool, bool]]:
    """Products and multiply-adds, for each job of a session."""
    run, examiner = run or Played(), Examiner()
    for one in jobs:
        examiner.parts(run, one, 2)
    return [(a["products"], a["multiply_adds"]) for a in run.asked]


def rate_on(devices: Devices) -> float | None:
    run: Any = Played()
    found = Examiner().parts(run, job(devices), 2)
    assert found is not None
    return found.products_multiply_adds_per_sec


def test_a_session_asks_for_products_and_for_a_models_multiply_adds_once() -> None:
    assert asked(job(), job(), job(model="resnet20")) == [(True, True), (False, False), (False, True)]


def test_each_precision_has_products_of_its_own() -> None:
    assert asked(job(), job(precision="mixed_bfloat16")) == [(True, True), (True, False)]


def test_what_was_asked_before_is_still_said() -> None:
    run: Any = Played()
    examiner = Examiner()
    assert examiner.parts(run, job(), 2) == examiner.parts(run, job(), 2)


def test_a_pipeline_alone_answers_for_no_model() -> None:
    assert asked(job(), job(), run=Played(Input.ALONE)) == [(True, True), (True, True)]


def test_gpus_add_up() -> None:
    assert rate_on(FOUR_GPUS) == 4e9


def test_devices_that_share_their_cores_do_not_add_up() -> None:
    assert (rate_on(CPU), rate_on(SPLIT_GPU)) == (1e9, 1e9)


def test_a_worker_that_dies_over_it_costs_nothing_but_the_answer() -> None:
    run: Any = Played(error=MeasurementError("the worker was killed"))
    assert Examiner().parts(run, job(), 2) is None


def test_a_worker_that_died_leaves_the_question_to_the_next() -> None:
    assert asked(job(), job(), run=Played(error=MeasurementError("killed"))) == [(True, True), (True, True)]
