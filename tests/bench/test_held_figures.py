"""`--tfperf-hold` of figures beside the throughput."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_tfperf.bench.task import judged_figures
from pytest_tfperf.core.baseline import Key, Provenance
from pytest_tfperf.core.figure import PEAK_MEMORY, Figure
from pytest_tfperf.core.figure_verdict import FigureReason
from pytest_tfperf.core.past import SessionChanges
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.judging.judge import Evidence
from pytest_tfperf.judging.reference import Reference
from tests.helpers.measurements import NOISE, baseline, run_at
from tests.helpers.played import BOX, PLAN, TRIVIAL, steady
from tests.helpers.played_session import ROW, PlayedSession

MEMORY_ROW = baseline(8e9, key=Key(TRIVIAL.id, BOX.shape, PEAK_MEMORY), unit="bytes")
RUNS = [run_at(100.0, figures={PEAK_MEMORY: 16e9})] * 8
GOOD = SessionChanges("good", (0.0,), Outcome.PASS)
BAD = replace(GOOD, bad_figures=frozenset({PEAK_MEMORY}))


def outcome(
    *past: SessionChanges, hold: bool = True, reference: Reference | None = None
) -> tuple[Outcome, FigureReason]:
    """Of eight runs that take twice the memory, after these sessions."""
    task = PlayedSession().task(steady(100.0))
    task = replace(task, plan=replace(PLAN, also=(Figure(PEAK_MEMORY),)))
    evidence = Evidence(
        throughput=summarise(RUNS),
        reference=reference or Reference(ROW, noise=NOISE),
        tolerance=Tolerance(),
        past=past,
        hold=hold,
    )
    (found,) = judged_figures(task, RUNS, (), evidence, {MEMORY_ROW.key: MEMORY_ROW})
    assert found.outcome is not None
    return found.outcome, found.reason


@pytest.mark.parametrize("past", [(), (GOOD, GOOD), (BAD, GOOD, GOOD)], ids=["none", "good", "bad long ago"])
def test_a_figure_that_regresses_for_the_first_time_is_held(past: tuple[SessionChanges, ...]) -> None:
    assert outcome(*past) == (Outcome.INCONCLUSIVE, FigureReason.HELD)


@pytest.mark.parametrize("past", [(GOOD, BAD), (BAD, GOOD)])
def test_a_figure_that_one_of_the_two_sessions_before_showed_regresses(past: tuple[SessionChanges, ...]) -> None:
    assert outcome(*past) == (Outcome.REGRESSED, FigureReason.CONFIRMED)


def test_nothing_is_held_unless_it_is_asked_for() -> None:
    assert outcome(GOOD, GOOD, hold=False) == (Outcome.REGRESSED, FigureReason.CONFIRMED)


def test_nothing_is_held_where_the_history_has_no_row_to_go_by() -> None:
    provisional = Reference(replace(ROW, provenance=Provenance.PROVISIONAL), noise=NOISE)
    assert outcome(reference=provisional) == (Outcome.REGRESSED, FigureReason.CONFIRMED)
