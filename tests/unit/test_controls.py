"""Controls: what a test that passed says of the machine, later that night."""

from __future__ import annotations

import pytest

from pytest_tfperf.bench.controls import Controls
from pytest_tfperf.bench.windows import Plan
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.topology import Host, Topology
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError

ONE = Workload(model="trivial", batch_size=1)
OTHER = Workload(model="trivial", batch_size=2)
HERE = Topology(host=Host(cpu_model="box", usable_cores=1, total_cores=1)).on_cpu().take(1)


def attempt(images_per_sec: float) -> Run:
    return Run(windows=(Window(1, 1 / images_per_sec),) * 5, images_per_step=1)


def restless(images_per_sec: float) -> Run:
    windows = tuple(Window(1, factor / images_per_sec) for factor in (0.5, 1.5, 0.6, 1.4, 1.0))
    return Run(windows=windows, images_per_step=1)


def controls(*workloads: Workload) -> Controls:
    made = Controls()
    for workload in workloads:
        made.add(workload, HERE, Plan(), attempt(1000.0))
    return made


def test_a_night_without_a_passing_test_has_no_control() -> None:
    assert controls().slower_now(lambda *_: attempt(1.0)) == ""


def test_a_control_that_is_as_fast_as_before_says_nothing() -> None:
    assert controls(ONE).slower_now(lambda *_: attempt(975.0)) == ""


def test_a_control_that_lost_throughput_names_itself_and_its_loss() -> None:
    assert "trivial-b1-replicated-device, which passed, lost 10%" in controls(ONE).slower_now(lambda *_: attempt(900.0))


def test_a_restless_control_proves_nothing() -> None:
    assert controls(ONE).slower_now(lambda *_: restless(900.0)) == ""


def test_controls_take_turns() -> None:
    asked: list[Workload] = []
    made = controls(ONE, OTHER)
    for _ in range(3):
        made.slower_now(lambda workload, *_: asked.append(workload) or attempt(1000.0))
    assert asked == [ONE, OTHER, ONE]


FAULTS = [MeasurementError("the worker died"), OSError("no space left on device")]


@pytest.mark.parametrize("fault", FAULTS, ids=["died", "refused"])
def test_a_control_that_can_not_be_measured_leaves_the_word_to_the_next(fault: Exception) -> None:
    def measure(workload: Workload, *_: object) -> Run:
        if workload == ONE:
            raise fault
        return attempt(900.0)

    assert "trivial-b2-replicated-device, which passed, lost 10%" in controls(ONE, OTHER).slower_now(measure)


def test_a_control_that_could_not_be_measured_once_is_not_asked_again() -> None:
    asked: list[Workload] = []

    def measure(workload: Workload, *_: object) -> Run:
        asked.append(workload)
        if workload == ONE:
            raise MeasurementError("the worker died")
        return attempt(1000.0)

    made = controls(ONE, OTHER)
    for _ in range(3):
        made.slower_now(measure)
    assert asked == [ONE, OTHER, OTHER, OTHER]


def test_where_no_control_can_be_measured_nothing_is_said() -> None:
    def measure(*_: object) -> Run:
        raise MeasurementError("the worker died")

    assert controls(ONE, OTHER).slower_now(measure) == ""
