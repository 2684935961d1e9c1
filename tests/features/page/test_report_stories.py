"""The sentence that the report says of a test, and what it compares a session with."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import PastResult
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.core.verdict import Outcome, Reason, Rule, Verdict
from tests.features.page.documents import facts_of
from tests.helpers.measurements import measurement, run_at, throughput, verdict


def at(change: float, day: int, outcome: Outcome, **more: Any) -> Measurement:
    given = {"session": f"s{day}", "time": f"2026-01-{day:02}T03:00:00+00:00", "verdict": verdict(outcome, change)}
    return measurement(throughput(1000.0 * (1 + change)), **given | more)


def facts_at_end(*days: Measurement, now: int = 1) -> dict[str, Any]:
    return facts_of(*days[-now:], past=[PastResult.of(one) for one in days], previous=days[:1])


def story(*days: Measurement) -> str:
    return str(facts_at_end(*days)["tests"][0]["story"])


def test_a_regression_that_was_over_and_came_again_is_new_in_this_session() -> None:
    slow, good = (-0.1, Outcome.REGRESSED), (0.0, Outcome.PASS)
    days = [at(change, day, outcome) for day, (change, outcome) in enumerate([good, slow, good, slow], 1)]
    assert story(*days).endswith("slower than 1,000 images/s, new in this session")


@pytest.mark.parametrize(("others", "said"), [(0.61, "; meanwhile other processes used 61 % of the CPU"), (0.2, "")])
def test_a_slowdown_is_told_with_what_other_processes_took(others: float, said: str) -> None:
    load = Telemetry(seconds=1.0, usable_cores=2, other_cpu_fraction_mean=others)
    slow = at(-0.1, 1, Outcome.REGRESSED, runs=(run_at(900.0, telemetry=load),))
    assert story(slow).partition("new in this session")[2] == said


def test_a_change_is_told_with_the_common_drift_that_was_taken_out() -> None:
    better = at(-0.41, 1, Outcome.IMPROVED, verdict=verdict(Outcome.IMPROVED, -0.41, common_drift=math.log1p(-0.6)))
    assert story(better).startswith(
        "IMPROVED: 41.0 % slower than 1,000 images/s (47.5 % faster than the 400.0 expected in this session)"
    )


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (Rule.BASELINE, "10.0 % slower than 1,000 images/s (8 % slower than the 978.3 expected in this session)"),
        (Rule.REFERENCE_ENVIRONMENT, "8 % slower than the reference environment"),
    ],
)
def test_a_confirmed_change_is_told_as_what_its_interval_is_of(rule: Rule, said: str) -> None:
    confirmed = verdict(Outcome.REGRESSED, -0.1, confirmed_change=-0.08, common_drift=math.log(0.9 / 0.92), rule=rule)
    assert story(at(-0.1, 1, Outcome.REGRESSED, verdict=confirmed)) == f"REGRESSED: {said}, new in this session"


def test_a_test_that_fails_by_a_figure_is_told_with_the_figure_alone() -> None:
    loss = Verdict(figure=Figure("loss", limit=3), value=4.0, outcome=Outcome.REGRESSED, reason=Reason.BEYOND_LIMIT)
    assert story(at(0.2, 1, Outcome.IMPROVED, figures=(loss,))) == "REGRESSED: loss 4, beyond its limit of 3"


def test_a_throughput_in_doubt_is_told_with_the_reason() -> None:
    doubt = verdict(Outcome.INCONCLUSIVE, -0.1, reason=Reason.SUSPECTED)
    assert story(at(-0.1, 1, Outcome.INCONCLUSIVE, verdict=doubt)).endswith("; a slowdown is suspected, not confirmed")


def test_a_slowdown_on_purpose_is_told() -> None:
    injected = at(-0.2, 2, Outcome.REGRESSED, environment={"injected_slowdown": "0.2"})
    assert story(at(0.0, 1, Outcome.PASS), injected).endswith("; slowed on purpose")


def test_a_report_over_several_sessions_has_no_session_before() -> None:
    days = [at(0.0, 1, Outcome.PASS), at(0.0, 2, Outcome.PASS), at(0.0, 3, Outcome.PASS, test="t.py::other")]
    assert len(facts_at_end(*days)["previous"]) == 1
    assert facts_at_end(*days, now=2)["previous"] == []
