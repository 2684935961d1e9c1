"""The sentence that the report says of a test, and what it compares a session with."""

from __future__ import annotations

import math
from typing import Any

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import Value
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.core.verdict import Outcome, Reason, Rule, Verdict
from tests.features.page.documents import facts_of
from tests.helpers.expected import SameTexts
from tests.helpers.measurements import measurement, run_at, throughput, verdict


def at(change: float, day: int, outcome: Outcome, **more: Any) -> Measurement:
    given = {"session": f"s{day}", "time": f"2026-01-{day:02}T03:00:00+00:00", "verdict": verdict(outcome, change)}
    return measurement(throughput(1000.0 * (1 + change)), **given | more)


def facts_at_end(*days: Measurement, now: int = 1) -> dict[str, Any]:
    return facts_of(*days[-now:], past=[Value.of(one) for one in days], previous=days[:1])


def slow(*, others: float = 0.0, **more: Any) -> Measurement:
    """Slower than its baseline, while other processes took a part of the CPU."""
    load = Telemetry(seconds=1.0, usable_cores=2, other_cpu_fraction_mean=others)
    return at(-0.1, 4, Outcome.REGRESSED, runs=(run_at(900.0, telemetry=load),), **more)


def confirmed(rule: Rule) -> Verdict:
    return verdict(Outcome.REGRESSED, -0.1, confirmed_change=-0.08, common_drift=math.log(0.9 / 0.92), rule=rule)


DRIFTED = verdict(Outcome.IMPROVED, -0.41, common_drift=math.log1p(-0.6))
LOSS = Verdict(figure=Figure("loss", limit=3), value=4.0, outcome=Outcome.REGRESSED, reason=Reason.BEYOND_LIMIT)
DOUBT = verdict(Outcome.INCONCLUSIVE, -0.1, reason=Reason.SUSPECTED)
GOOD = at(0.0, 3, Outcome.PASS)

STORIES = {
    "over, and come again": [at(0.0, 1, Outcome.PASS), at(-0.1, 2, Outcome.REGRESSED), GOOD, slow()],
    "slow since a session before": [at(0.0, 2, Outcome.PASS), at(-0.1, 3, Outcome.REGRESSED), slow()],
    "meanwhile a lot of load": [slow(others=0.61)],
    "meanwhile a little load": [slow(others=0.2)],
    "with the common drift taken out": [at(-0.41, 1, Outcome.IMPROVED, verdict=DRIFTED)],
    "confirmed against the baseline": [slow(verdict=confirmed(Rule.BASELINE))],
    "confirmed by the reference environment": [slow(verdict=confirmed(Rule.REFERENCE_ENVIRONMENT))],
    "by a figure alone": [at(0.2, 1, Outcome.IMPROVED, figures=(LOSS,))],
    "in doubt": [at(-0.1, 1, Outcome.INCONCLUSIVE, verdict=DOUBT)],
    "slowed on purpose": [GOOD, slow(environment={"injected_slowdown": "0.2"})],
}


def test_stories(same_texts: SameTexts) -> None:
    same_texts("stories", {case: facts_at_end(*days)["tests"][0]["story"] for case, days in STORIES.items()})


def test_a_report_over_several_sessions_has_no_session_before() -> None:
    days = [at(0.0, 1, Outcome.PASS), at(0.0, 2, Outcome.PASS), at(0.0, 3, Outcome.PASS, test="t.py::other")]
    assert len(facts_at_end(*days)["previous"]) == 1
    assert facts_at_end(*days, now=2)["previous"] == []
