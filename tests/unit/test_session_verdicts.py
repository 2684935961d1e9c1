"""The session's verdicts on software and machine, with workers that play a script."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from measurements import baseline
from played import BOX, PLAN, TRIVIAL, Notes, PlayedGuard, PlayedLauncher, steady

from pytest_tfperf.bench.bench import Bench
from pytest_tfperf.bench.machine_session import MachineSession
from pytest_tfperf.bench.one_run import RunEngine, Side
from pytest_tfperf.bench.session_verdicts import session_verdicts
from pytest_tfperf.bench.task import Task
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.session_verdicts import MachineVerdict, SoftwareVerdict
from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.judging.reference import reference_for

ROW = baseline(100.0, key=Key(TRIVIAL.id, BOX.shape))
TESTS = 10


def judged(
    folder: Path, now: PlayedLauncher, reference: PlayedLauncher | None, *, tests: int = TESTS
) -> tuple[SoftwareVerdict | None, MachineVerdict | None]:
    """A session of these tests, all of one workload that the baseline has at 100 images/s."""
    machine = MachineSession({ROW.key: ROW}, {}, tests=tests)
    engine = RunEngine(Notes(), PlayedGuard())
    bench = Bench(engine, lambda _: machine)
    side = Side(workload=TRIVIAL, launcher=now)
    tasks = [
        Task(
            test=f"a.py::test[{number}]",
            topology=BOX,
            plan=PLAN,
            side=side,
            reference=reference_for({ROW.key: ROW}, [], "box", ROW.key, gpu_fp32_tflops=None),
            tolerance=Tolerance(),
            reference_side=None if reference is None else replace(side, launcher=reference),
        )
        for number in range(tests)
    ]
    found: list[Measurement] = [bench.check(task) for task in tasks]
    while not all(one.is_decided for one in found):
        found = [one if one.is_decided else bench.check(task, one) for task, one in zip(tasks, found, strict=True)]
    return session_verdicts(machine, engine, found, Tolerance(), turn=0)


def test_a_quiet_session_asks_no_sentinel(tmp_path: Path) -> None:
    reference = steady(100.0)
    software, machine = judged(tmp_path, steady(100.0), reference)
    assert (software, machine and machine.outcome, reference.started) == (None, Outcome.PASS, 0)


def test_a_slowdown_of_all_tests_that_the_reference_environment_does_not_share_is_the_softwares(tmp_path: Path) -> None:
    software, machine = judged(tmp_path, steady(92.0), steady(100.0))
    assert software is not None
    assert machine is not None
    assert (software.outcome, machine.outcome) == (Outcome.REGRESSED, Outcome.PASS)
    assert software.change == pytest.approx(-0.08)


def test_a_slowdown_that_the_reference_environment_shares_is_the_machines(tmp_path: Path) -> None:
    software, machine = judged(tmp_path, steady(92.0), steady(92.0))
    assert software is not None
    assert machine is not None
    assert (software.outcome, machine.outcome) == (Outcome.PASS, Outcome.REGRESSED)
    assert machine.change == pytest.approx(-0.08)
    assert machine.is_apart


def test_without_a_reference_environment_nothing_tells_them_apart(tmp_path: Path) -> None:
    software, machine = judged(tmp_path, steady(92.0), None)
    assert machine is not None
    assert (software, machine.outcome, machine.is_apart) == (None, Outcome.REGRESSED, False)


def test_a_reference_environment_that_fails_costs_only_the_answer(tmp_path: Path) -> None:
    software, machine = judged(tmp_path, steady(92.0), steady(MeasurementError("broken")))
    assert machine is not None
    assert (software, machine.is_apart) == (None, False)


def test_fewer_than_eight_tests_tell_nothing_common(tmp_path: Path) -> None:
    software, machine = judged(tmp_path, steady(99.0), None, tests=3)
    assert (software, machine) == (None, None)
