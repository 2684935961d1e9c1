"""Figures that go with the machine's speed, and what the session's tests have in common."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pytest_tfperf.bench.task import judged
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.figure import FIRST_STEP, PEAK_MEMORY, Figure
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import NOTHING, Tolerance, Want
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.session_effects import CommonDrift
from pytest_tfperf.judging.target import Target
from tests.helpers.measurements import NOISE, baseline, run_at
from tests.helpers.played import BOX, PLAN, TRIVIAL, steady
from tests.helpers.played_session import ROW, PlayedSession


def wants(name: str, *, is_drift_to_come: bool) -> Want:
    """Of one run, half as much again as the row has, where the tests so far run at two thirds of their speed."""
    figure = Figure(name)
    row = baseline(1e9, key=Key(TRIVIAL.id, BOX.shape, name), unit=figure.unit or "", between_runs=0.001)
    runs = [run_at(100.0, figures={name: 1.5e9})]
    task = PlayedSession().task(steady(100.0))
    evidence = Evidence(
        throughput=summarise(runs),
        target=Target(ROW, noise=NOISE),
        tolerance=Tolerance(),
        drift=CommonDrift(math.log(2 / 3), 9),
        is_drift_to_come=is_drift_to_come,
    )
    _, found = judged(replace(task, plan=replace(PLAN, also=(figure,))), runs, (), evidence, {row.key: row})
    return found.wants.what


@pytest.mark.parametrize(("is_drift_to_come", "expected"), [(True, Want.COMMON_DRIFT), (False, NOTHING.what)])
def test_a_slow_drift_clears_no_time_before_all_tests_ran(is_drift_to_come: bool, expected: Want) -> None:
    assert wants(FIRST_STEP, is_drift_to_come=is_drift_to_come) is expected


def test_a_drift_clears_nothing_that_does_not_go_with_the_speed() -> None:
    assert wants(PEAK_MEMORY, is_drift_to_come=False) is Want.RUNS
