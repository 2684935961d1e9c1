"""The facts of a session that may be news."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.rerun_command import FROM_ROOTDIR
from pytest_tfperf.core.selection import SelectedTest
from pytest_tfperf.core.session_verdicts import SessionResult
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.features.notify.events import session_events
from pytest_tfperf.features.notify.news import Event, EventKind
from tests.helpers.measurements import (
    TEST,
    acknowledged,
    baseline,
    interleaved,
    measurement,
    session_verdict,
    throughput,
    verdict,
)

NOW = "2026-11-27T03:00:00+00:00"
LOSS = verdict(Outcome.REGRESSED, -0.13)


def facts(*results: Measurement, known: dict[str, str] | None = None, drift: bool = False, **more: Any) -> list[Event]:
    record = SessionResult(results=results, **more)
    return session_events(record, known or {}, FROM_ROOTDIR, NOW, judges_drift=drift)


def kinds(*results: Measurement, **more: Any) -> dict[str, EventKind]:
    """By figure, of tests."""
    return {one.figure: one.kind for one in facts(*results, **more) if one.test}


def lost(change: float = -0.13, *, verdict_more: dict[str, Any] | None = None, **more: Any) -> Measurement:
    given = {"interval": (change - 0.005, change + 0.005), **(verdict_more or {})}
    judged = verdict(Outcome.REGRESSED, change, **given)
    return measurement(throughput(1000 * (1 + change)), verdict=judged, **{"time": NOW, **more})


def test_a_loss_says_by_how_much_whose_it_is_and_how_to_measure_it_again() -> None:
    interval = -0.135, -0.125
    found = facts(lost(owner="team-vision", verdict_more={"interval": interval}))
    (loss,) = [one for one in found if one.kind is EventKind.NEW]
    assert loss.topic == ("box", TEST, "throughput")
    assert (loss.change, loss.interval, loss.owner) == (-0.13, interval, "team-vision")
    assert "870.0 images/s" in loss.headline
    assert "13.0 % slower than 1,000" in loss.headline
    assert loss.rerun == f"pytest '{TEST}'"


def test_a_test_that_passes_is_well_and_measured() -> None:
    assert kinds(measurement(verdict=verdict())) == {"throughput": EventKind.RECOVERED, "": EventKind.RECOVERED}


@pytest.mark.parametrize("outcome", [Outcome.INCONCLUSIVE, Outcome.TOO_NOISY, Outcome.NO_BASELINE, None])
def test_what_is_not_certain_changes_nothing(outcome: Outcome | None) -> None:
    assert "throughput" not in kinds(measurement(verdict=verdict(outcome, -0.13)))


@pytest.mark.parametrize("outcome", [Outcome.REGRESSED, Outcome.PASS])
def test_a_verdict_against_earlier_sessions_changes_nothing(outcome: Outcome) -> None:
    provisional = verdict(outcome, -0.13, baseline=baseline(provenance=Provenance.PROVISIONAL))
    assert "throughput" not in kinds(measurement(verdict=provisional))


def test_of_a_tests_calls_the_one_that_lost_counts() -> None:
    assert kinds(lost(), measurement(verdict=verdict()))["throughput"] is EventKind.NEW
    assert kinds(measurement(verdict=verdict()), lost())["throughput"] is EventKind.NEW


def test_a_test_is_not_well_while_one_of_its_calls_is_in_doubt() -> None:
    doubtful = measurement(verdict=verdict(Outcome.INCONCLUSIVE, -0.13))
    assert "throughput" not in kinds(measurement(verdict=verdict()), doubtful)


def test_a_figure_has_an_event_of_its_own() -> None:
    memory = Verdict(
        outcome=Outcome.REGRESSED,
        figure=Figure("peak_memory"),
        value=2.2e9,
        baseline=baseline(2e9, unit="bytes"),
        change=2e8,
        confirmed_change=2e8,
    )
    found = facts(measurement(verdict=verdict(), figures=[memory]))
    (loss,) = [one for one in found if one.figure == "peak_memory"]
    assert (loss.kind, loss.change) == (EventKind.NEW, 2e8)
    assert loss.headline.startswith("peak memory 2.05 GiB, 10.0 % more than 1.86 GiB, of resnet50-b64")


def test_a_comparison_is_no_fact() -> None:
    assert facts(interleaved()) == []


def test_a_session_that_is_slowed_on_purpose_has_no_facts() -> None:
    assert facts(lost(environment={"injected_slowdown": "0.2"}), verdicts=[session_verdict(kind="together")]) == []


# Acknowledged


def known_until(day: str, **more: Any) -> Measurement:
    loss = acknowledged(-0.13, -0.14, test=TEST, until=date.fromisoformat(day), why="cuDNN 9.12")
    one = lost(**more)
    return replace(one, verdicts=(replace(one.verdicts[0], acknowledged=loss),))


def test_an_acknowledged_loss_is_no_news() -> None:
    assert kinds(known_until("2027-01-15")) == {"": EventKind.RECOVERED}


@pytest.mark.parametrize(
    ("until", "kind"),
    [
        ("2026-12-12", None),
        ("2026-12-11", EventKind.ENDS),
        ("2026-11-27", EventKind.ENDS),
        ("2026-11-26", EventKind.ENDED),
    ],
)
def test_its_end_is_told_14_days_before_and_when_it_has_come(until: str, kind: EventKind | None) -> None:
    found = [one for one in facts(known_until(until)) if one.figure == "throughput"]
    assert [one.kind for one in found] == ([kind] if kind else [])
    assert all(one.acknowledged_until == until for one in found)
    over = ", which is over" if kind is EventKind.ENDED else ""
    assert all(one.headline.endswith(f"; acknowledged until {until}{over}: cuDNN 9.12") for one in found)


def test_an_acknowledged_loss_that_gets_worse_is_told() -> None:
    (worse,) = [one for one in facts(known_until("2027-01-15", change=-0.2)) if one.figure == "throughput"]
    assert worse.kind is EventKind.WORSE
    says = "; WORSE than acknowledged, which was 13.0 % slower until 2027-01-15: cuDNN 9.12"
    assert worse.headline.endswith(says)


# The machine


@pytest.mark.parametrize("kind", ["software", "machine", "together"])
def test_a_slower_machine_is_one_event_and_not_one_for_each_test(kind: str) -> None:
    found = facts(lost(), measurement(test="b.py::b", verdict=verdict()), verdicts=[session_verdict(kind=kind)])
    assert [one.topic for one in found if one.figure not in ("", "heartbeat")] == [("box", "", kind)]


def test_the_figures_of_a_slower_machines_tests_are_facts() -> None:
    memory = Verdict(outcome=Outcome.PASS, figure=Figure("peak_memory"), value=2e9, baseline=baseline(2e9))
    found = kinds(measurement(verdict=LOSS, figures=[memory]), verdicts=[session_verdict()])
    assert found == {"peak_memory": EventKind.RECOVERED, "": EventKind.RECOVERED}


@pytest.mark.parametrize(
    ("outcome", "kinds_of_machine"), [(Outcome.PASS, [EventKind.RECOVERED]), (Outcome.INCONCLUSIVE, [])]
)
def test_a_machine_is_well_again_once_that_is_certain(outcome: Outcome, kinds_of_machine: list[EventKind]) -> None:
    assert [one.kind for one in facts(verdicts=[session_verdict(outcome)])] == kinds_of_machine


def test_a_lasting_loss_is_a_fact_of_its_test() -> None:
    (drift,) = facts(verdicts=[session_verdict(kind="drift")])
    assert drift.topic == ("box", "test_a.py::test_b", "throughput drift")
    assert drift.headline == "drift on box: test_a.py::test_b became slower for good, by 3.1 %"
    assert drift.change == pytest.approx(-0.031, abs=0.0005)
    assert drift.interval is not None
    assert drift.interval[0] < drift.change < drift.interval[1]


@pytest.mark.parametrize("judges", [True, False])
def test_a_lasting_loss_is_over_only_if_drifts_are_judged(judges: bool) -> None:
    found = facts(measurement(verdict=verdict()), drift=judges)
    assert [one.topic for one in found if "drift" in one.figure] == [
        ("box", "", "drift"),
        ("box", TEST, "throughput drift"),
    ] * judges


# Not measured

DIED = MeasurementError("the worker died: signal 9", next_step="Look at its log", where="resnet50 on 1 GPU")


def test_a_test_that_was_measured_before_is_missing_with_the_reason() -> None:
    well = measurement(test="b.py::b", verdict=verdict())
    selection = {TEST: SelectedTest(id=TEST, owner="team-vision")}
    not_measured = {TEST: DIED, "new.py::never_measured": DIED}
    found = facts(well, known={TEST: "box"}, not_measured=not_measured, selection=selection)
    (missing,) = [one for one in found if one.kind is EventKind.MISSING]
    assert (missing.topic, missing.owner) == (("box", TEST, ""), "team-vision")
    assert missing.headline == "resnet50 on 1 GPU: the worker died: signal 9"


def test_a_machine_without_any_measurement_is_one_event() -> None:
    tests = {"a.py::a": DIED, "a.py::b": DIED, "a.py::c": DIED}
    (missing,) = facts(known=dict.fromkeys(tests, "box"), not_measured=tests)
    assert missing.topic == ("box", "", "")
    assert missing.headline.startswith("none of 3 tests could be measured: a.py::a: resnet50 on 1 GPU: the worker died")


def test_a_test_that_ended_in_an_error_is_not_measured_again() -> None:
    found = facts(measurement(verdict=verdict()), known={TEST: "box"}, not_measured={TEST: DIED})
    assert [one.kind for one in found if one.figure == "" and one.test] == [EventKind.MISSING]


def test_of_two_losses_of_a_test_the_larger_one_counts() -> None:
    for calls in ((lost(-0.2), lost(-0.1)), (lost(-0.1), lost(-0.2))):
        assert [one.change for one in facts(*calls) if one.figure == "throughput"] == [-0.2]


def test_a_gain_of_one_call_hides_no_loss_of_another() -> None:
    gained = measurement(verdict=verdict(Outcome.IMPROVED, 0.5))
    for calls in ((gained, lost(-0.1)), (lost(-0.1), gained)):
        assert kinds(*calls)["throughput"] is EventKind.NEW


def test_tests_of_a_machine_that_measures_others_are_missing_each_by_itself() -> None:
    tests = {"a.py::a": DIED, "a.py::b": DIED}
    well = measurement(test="c.py::c", verdict=verdict())
    found = facts(well, known=dict.fromkeys(tests, "box"), not_measured=tests)
    assert [one.test for one in found if one.kind is EventKind.MISSING] == ["a.py::a", "a.py::b"]
