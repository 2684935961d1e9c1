"""A confirmed regression is traced, and says which operations grew; what can't be traced is said in one line."""

from __future__ import annotations

import re

import pytest

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.profile import OpTime, Profile
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import NOTHING
from pytest_tfperf.core.workload import Workload
from tests.helpers.inner import MACHINE, Finished, Project

trains = pytest.mark.slow

TESTS = """
    import sys
    from pytest_tfperf import Command

    def test_slower(throughput, on):
        throughput.check(tiny(3), on=on)

    def test_slower_program(throughput, on):
        command = [sys.executable, "-c", "print('9 examples/s\\\\n' * 9)"]
        throughput.check(Command(command, name="program", reads=RATES_TO_THE_END), on=on)
"""
WORKLOAD = Workload(model="nets:tiny", batch_size=3)
RECORDED = "2026-01-02"
OPTION = "--tfperf-profile-on-regression=traces"


def recorded() -> Measurement:
    """The baseline's, when the model had another layer only."""
    run = Run((Window(1, 0.1),) * 5, 3)
    then = OpTime(name="another_layer/MatMul", type="MatMul", seconds=1e-9, count=1.0)
    return Measurement(
        test="test_it.py::test_slower",
        workload=WORKLOAD,
        topology="1x1",
        machine=MACHINE,
        devices="a CPU",
        runs=(run,),
        throughput=summarise([run]),
        recording=NOTHING,
        profile=Profile(steps=20, ops=(then,)),
        time=f"{RECORDED}T03:04:05+00:00",
    )


@pytest.fixture(scope="module")
def session(shared: Project) -> Finished:
    shared.tests(TESTS)
    shared.baseline(WORKLOAD.id, value=1e6, date=RECORDED)
    shared.baseline("program", value=100.0, unit="examples", between_runs=0.001, runs=5)
    shared.history.append(recorded())
    return shared.run(OPTION)


@pytest.fixture(scope="module")
def profile(session: Finished, shared: Project) -> Profile:
    (found,) = [one for one in shared.history.measurements() if one.test.endswith("::test_slower") and one.verdict]
    assert found.profile is not None
    return found.profile


@trains
def test_a_regression_is_traced_where_its_message_says(session: Finished, shared: Project, profile: Profile) -> None:
    assert f"\n  profile     {profile.folder}    (open with tensorboard --logdir traces)\n" in session.text
    assert len(list((shared.folder / profile.folder).glob("plugins/profile/*/*.xplane.pb"))) == 1


@trains
def test_the_operations_that_the_baseline_did_not_have_are_named(session: Finished) -> None:
    assert re.search(
        r"\n  grew        \w*MatMul \S*dense\S* 0 -> \S+ ms a step, calls 0 -> \S+\n", session.cases["test_slower"].text
    )


@trains
def test_the_operations_are_kept_with_the_measurement(profile: Profile) -> None:
    assert any("dense" in op.name for op in profile.ops)


@trains
def test_a_program_of_ones_own_says_in_a_line_that_it_has_no_profile(session: Finished) -> None:
    assert (
        "\n  profile     none: not possible for a program that is read by its output: "
        in session.cases["test_slower_program"].text
    )


def test_a_folder_that_can_not_be_written_is_refused_before_anything_is_measured(played_project: Project) -> None:
    played_project.tests(TESTS)
    played_project.write("file", "")
    found = played_project.run("--tfperf-profile-on-regression=file/traces")
    assert (found.status, played_project.started_workers) == (4, False)
    assert "file/traces can't be written: a file is in its way" in found.text
