"""`tfperf explain` of figures beside the throughput."""

from __future__ import annotations

from measurements import KEY, baseline, measurement, run_at, verdict

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.figure_verdict import FigureReason, FigureVerdict
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.explain import explained


def test_a_figure_that_regressed_is_explained_after_a_throughput_that_passed() -> None:
    loss = FigureVerdict(
        figure=Figure("loss"),
        value=2.6,
        outcome=Outcome.REGRESSED,
        reason=FigureReason.CONFIRMED,
        baseline=baseline(2.3, key=KEY._replace(figure="loss"), unit="", date="2026-11-24"),
        change=0.3,
        threshold=0.115,
    )
    lines = explained(measurement(verdict=verdict(), figures=(loss,), runs=(run_at(1000.0, figures={"loss": 2.6}),)))
    assert "PASS: within the tolerance." in lines
    assert lines[-4:] == [
        "REGRESSED: loss 2.6, 13.0 % higher than 2.3: the change for the worse is confirmed.",
        "  threshold: fails from a change of 0.115    (baseline 2.3, tolerance 5 %)",
        "  baseline: measured (2026-11-24), 5 runs",
        "  confirmed: 1 fresh run: 2.6",
    ]
