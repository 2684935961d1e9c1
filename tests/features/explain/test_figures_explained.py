"""`tfperf explain` of figures beside the throughput."""

from __future__ import annotations

import pytest

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import Outcome, Reason, Tolerance, Verdict
from pytest_tfperf.features.explain import explained
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.target import Target
from tests.helpers.measurements import KEY, NOISE, baseline, measurement, run_at, verdict


def test_a_figure_that_regressed_is_explained_after_a_throughput_that_passed() -> None:
    loss = Verdict(
        figure=Figure("loss"),
        value=2.6,
        outcome=Outcome.REGRESSED,
        reason=Reason.CONFIRMED,
        baseline=baseline(2.3, key=KEY._replace(figure="loss"), unit="", date="2026-11-24"),
        change=0.3,
        threshold=0.115,
    )
    lines = explained(measurement(verdict=verdict(), figures=(loss,), runs=(run_at(1000.0, figures={"loss": 2.6}),)))
    assert lines[0] == "REGRESSED: loss 2.6, 13.0 % higher than 2.3."
    assert "The throughput: PASS: within the tolerance." in lines
    assert lines[-4:] == [
        "REGRESSED: loss 2.6, 13.0 % higher than 2.3: the change for the worse is confirmed.",
        "  threshold: fails from a change of 0.115    (baseline 2.3, tolerance 5 %)",
        "  baseline: measured (2026-11-24), 5 runs",
        "  runs: 2.6: the change for the worse is confirmed",
    ]


@pytest.mark.parametrize(
    ("first", "said"),
    [(0.01, "A figure beside the throughput wanted the further runs."), (-0.2, "So it had to be confirmed.")],
)
def test_further_runs_are_a_figures_wish_unless_the_first_one_was_slow(first: float, said: str) -> None:
    runs = tuple(run_at(1000.0 * (1 + change), figures={"loss": 2.3}) for change in (first, 0.01, 0.01))
    evidence = Evidence(
        throughput=summarise(runs), target=Target(baseline(), noise=NOISE), tolerance=Tolerance.of(0.02)
    )
    loss = Verdict(figure=Figure("loss"), value=2.3, outcome=Outcome.PASS, reason=Reason.WITHIN_TOLERANCE)
    found = measurement(evidence.throughput, runs=runs, verdict=judge(evidence), figures=(loss,))
    assert [line for line in explained(found) if line.startswith("  The first run was") and line.endswith(said)]
