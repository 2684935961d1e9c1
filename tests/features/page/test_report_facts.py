"""The report's document: its form, its order, what it says of each test, and what changed."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import ChangeKind, LastingChange, Value
from pytest_tfperf.core.profile import Bound, Breakdown, Input, Profile, Slower
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict, Want, Wants
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.page.facts import report_facts
from pytest_tfperf.reports.numbers import compared
from tests.features.page.documents import facts_of
from tests.helpers.expected import SameTexts
from tests.helpers.measurements import (
    BUSY,
    acknowledged,
    baseline,
    interleaved,
    measurement,
    pair,
    run_at,
    session_verdict,
    throughput,
    verdict,
    verdicts,
)
from tests.helpers.past_results import changed
from tools.simulated_weeks import SLOWDOWN, SLOWER_SINCE, SLOWER_TEST, source

SCHEMA = Draft202012Validator(json.loads((Path(__file__).parents[3] / "docs" / "report.schema.json").read_text()))
Draft202012Validator.check_schema(SCHEMA.schema)  # once: it takes longer than any facts


def judged(outcome: Outcome, change: float, **more: Any) -> Measurement:
    now = throughput(*[1000.0 * (1 + change)] * 3)
    return measurement(now, **{"session": "now", "verdict": verdict(outcome, change), "runs": (run_at(1000.0),)} | more)


def earlier(day: int, rate: float, outcome: str = "PASS", **more: Any) -> Value:
    result = Value.of(judged(Outcome.PASS, 0.0))
    given = {
        "session": f"s{day}",
        "time": f"2025-12-{day:02}T03:00:00+00:00",
        "outcome": Outcome(outcome) if outcome else None,
    }
    given |= more
    return changed(result, value=rate, **given)


LOSS = Verdict(figure=Figure("loss", limit=3), value=4.0, outcome=Outcome.REGRESSED, reason=Reason.BEYOND_LIMIT)


def test_a_test_whose_figure_is_worse_says_which() -> None:
    (test,) = facts_of(judged(Outcome.PASS, 0.0, figures=(LOSS,)))["tests"]
    assert (test["outcome"], test["story"]) == ("REGRESSED", "REGRESSED: loss 4, beyond its limit of 3")
    assert [row["value"] for row in test["figures"]] == ["4"]


def test_the_facts_of_real_weeks_fit_the_schema() -> None:
    SCHEMA.validate(report_facts(*source()))


@pytest.mark.parametrize(
    "odd",
    [
        measurement(),
        judged(Outcome.NO_BASELINE, 0.0, verdict=verdict(Outcome.NO_BASELINE, baseline=None, change=None)),
        judged(Outcome.INVALID, 0.0, verdict=verdict(Outcome.INVALID, reason=Reason.DISTURBED)),
        judged(Outcome.REGRESSED, -0.1, pairs=(pair(-0.1),), discarded=(run_at(900.0, disturbance=BUSY),)),
        judged(Outcome.PASS, 0.0, runs=(run_at(1000.0, stated_examples_per_sec=1000.0),), time="", session=""),
        measurement(throughput(1000.0, low=0.0, high=math.inf)),
        judged(Outcome.PASS, 0.0, figures=(LOSS,)),
    ],
    ids=["not judged", "no baseline", "invalid", "pairs and discarded runs", "a log", "an open interval", "a figure"],
)
def test_facts_of_odd_measurements_fit_the_schema(odd: Measurement) -> None:
    SCHEMA.validate(facts_of(odd, interleaved()))


def test_the_injected_slowdown_is_the_first_test_with_its_size_and_date() -> None:
    worst = report_facts(*source())["tests"][0]
    assert worst["test"] == SLOWER_TEST
    assert worst["change"] == pytest.approx(-SLOWDOWN, abs=0.005)
    assert worst["since"]["time"][:10] == SLOWER_SINCE.date().isoformat()


def test_the_worst_test_comes_first() -> None:
    outcomes = [(Outcome.PASS, 0.0), (Outcome.REGRESSED, -0.1), (Outcome.IMPROVED, 0.2), (Outcome.REGRESSED, -0.2)]
    facts = facts_of(*(judged(o, c, test=f"t.py::test_{n}") for n, (o, c) in enumerate(outcomes)))
    assert [test["test"][-1] for test in facts["tests"]] == ["3", "1", "2", "0"]


@pytest.mark.parametrize(
    "later",
    [
        {"verdicts": verdicts()},
        {"verdicts": verdicts(verdict(Outcome.PASS))},
        {"verdicts": verdicts(verdict(Outcome.REGRESSED, -0.06)), "throughput": throughput(940.0)},
    ],
    ids=["measured", "passed", "less slow"],
)
def test_a_regression_stays_when_its_test_measures_the_workload_again(later: dict[str, Any]) -> None:
    slow = judged(Outcome.REGRESSED, -0.1)
    (test,) = facts_of(slow, replace(slow, **later, time="2026-01-02T03:04:09+00:00"))["tests"]
    assert (test["outcome"], test["rate"]) == ("REGRESSED", 900)


def test_of_two_measurements_that_nobody_judged_the_last_is_shown() -> None:
    (test,) = facts_of(measurement(throughput(900.0)), measurement(throughput(1000.0)))["tests"]
    assert test["rate"] == 1000


def test_an_earlier_session_is_known_by_its_worst_result_of_a_test() -> None:
    past = [earlier(1, 900.0, "REGRESSED"), earlier(1, 1000.0, "")]
    (test,) = facts_of(judged(Outcome.PASS, 0.0), past=past)["tests"]
    assert test["history"]["outcome"] == ["REGRESSED", "PASS"]


def test_a_test_whose_last_runs_are_missing_is_undecided() -> None:
    facts = facts_of(
        judged(Outcome.INCONCLUSIVE, -0.1, verdict=verdict(Outcome.INCONCLUSIVE, -0.1, wants=Wants(Want.RUNS, 3)))
    )
    SCHEMA.validate(facts)
    assert (facts["tests"][0]["outcome"], facts["counts"]) == ("undecided", {"undecided": 1})


def eight(**more: Any) -> list[Measurement]:
    return [judged(Outcome.PASS, 0.0, test=f"t.py::test_{number}", **more) for number in range(8)]


DIED = TfperfError("the worker died")
SLOW, PASSED = judged(Outcome.REGRESSED, -0.1), judged(Outcome.PASS, 0.0)
OTHER = judged(Outcome.PASS, 0.0, test="t.py::other")
REFUSED = measurement(test="t.py::noisy", is_refused=True)
TOO_NOISY = {"t.py::noisy": TfperfError("too noisy for a baseline")}
EARLIER = baseline(provenance=Provenance.PROVISIONAL)
PROVISIONAL = judged(Outcome.PASS, -0.46, verdict=verdict(Outcome.PASS, -0.46, baseline=EARLIER))
SLOWER_THAN_EARLIER = judged(Outcome.REGRESSED, -0.1, verdict=verdict(Outcome.REGRESSED, -0.1, baseline=EARLIER))
UNKNOWN = judged(Outcome.NO_BASELINE, 0.0, verdict=verdict(Outcome.NO_BASELINE, baseline=None, change=None))

INVALID_RATIO = interleaved(Outcome.INVALID)

HEADLINES = {
    "a slow test": facts_of(SLOW, OTHER),
    "a slowdown against earlier sessions": facts_of(SLOWER_THAN_EARLIER, OTHER),
    "no baseline": facts_of(UNKNOWN),
    "could not be measured": facts_of(not_measured={"t.py::a": DIED}),
    "passed, then ended in an error": facts_of(PASSED, not_measured={PASSED.test: DIED}),
    "regressed, then ended in an error": facts_of(SLOW, not_measured={SLOW.test: DIED}),
    "the machine passed": facts_of(*eight(), verdicts=[session_verdict(Outcome.PASS)]),
    "a slower machine": facts_of(*eight(), verdicts=[session_verdict()]),
    "software first": facts_of(
        *eight(),
        verdicts=[
            session_verdict(Outcome.INCONCLUSIVE, kind="together"),
            session_verdict(kind="software", change=-0.03),
        ],
    ),
    "one of two machines": facts_of(
        *eight(), verdicts=[session_verdict(), session_verdict(Outcome.PASS, machine="other")]
    ),
    "drift": facts_of(*eight(), verdicts=[session_verdict(kind="drift")]),
    "passed against earlier sessions": facts_of(PROVISIONAL),
    "one passed against earlier sessions": facts_of(*eight(), replace(PROVISIONAL, test="t.py::other")),
    "a refused baseline": facts_of(REFUSED, refused=TOO_NOISY),
    "a refused baseline beside another test": facts_of(REFUSED, measurement(test="t.py::other"), refused=TOO_NOISY),
    "two comparisons of one test": facts_of(interleaved(), interleaved()),
    "a slow comparison beside a test that passed": facts_of(OTHER, interleaved()),
    "comparisons without a ratio": facts_of(*(replace(INVALID_RATIO, test=test) for test in ("a", "b"))),
    "two calls of one test": facts_of(PASSED, replace(SLOW, topology="1x4")),
}


def test_headlines(same_texts: SameTexts) -> None:
    same_texts("headlines", {case: facts["clauses"] for case, facts in HEADLINES.items()})


def test_a_headline_is_its_clauses_in_one_sentence() -> None:
    for facts in HEADLINES.values():
        SCHEMA.validate(facts)
        assert facts["headline"] == "; ".join(facts["clauses"])


def test_a_comparison_without_a_valid_ratio_has_no_figures() -> None:
    facts = facts_of(INVALID_RATIO)
    SCHEMA.validate(facts)
    (one,) = facts["comparisons"]
    assert (one["change"], one["low"], one["high"]) == (None, None, None)


def test_the_sides_of_a_comparison_are_named_by_what_differs() -> None:
    (one,) = facts_of(interleaved())["comparisons"]
    assert (one["a"], one["b"]) == ("tensorflow 2.16.2", "tensorflow 2.21.0")


def test_a_comparison_has_the_ratio_that_its_test_requires() -> None:
    facts = facts_of(interleaved(ratio=1.99, a={"at_least": 2.5}), interleaved(ratio=0.9))
    SCHEMA.validate(facts)
    assert [one["required_ratio"] for one in facts["comparisons"]] == [None, 2.5]


def test_the_worst_comparison_comes_first() -> None:
    facts = facts_of(interleaved(Outcome.PASS, 1.0), interleaved(), interleaved(ratio=0.8))
    assert [one["change"] for one in facts["comparisons"]] == [-0.2, -0.1, 0]


def test_two_calls_of_one_test_are_one_test_of_the_machine() -> None:
    facts = facts_of(PASSED, replace(SLOW, topology="1x4"))
    assert [machine["tests"] for machine in facts["session"]["machines"]] == [1]


def test_a_refused_baseline_is_shown_with_its_reason() -> None:
    assert facts_of(REFUSED, refused=TOO_NOISY)["not_measured"] == [
        {
            "test": "t.py::noisy",
            "effect": "errors",
            "why": "too noisy for a baseline",
            "fact": "too noisy for a baseline",
        }
    ]


def test_sessions_of_two_hosts_with_one_name_are_in_order() -> None:
    times = {"long": "2025-12-01T0{}:00:00+00:00", "short": "2025-12-01T0{}:30:00+00:00"}
    past = [
        earlier(1, 990.0, session="long", time=times["long"].format(1)),
        earlier(1, 980.0, session="short", time=times["short"].format(2)),
        earlier(1, 500.0, session="long", time=times["long"].format(5), test="t.py::last"),
    ]
    facts = facts_of(judged(Outcome.PASS, 0.0), past=past)
    shown = [facts["sessions"][index]["time"] for index in facts["tests"][0]["history"]["session"]]
    assert shown == sorted(shown)


def test_the_judged_change_is_free_of_the_common_drift() -> None:
    drifted = verdict(Outcome.PASS, -0.03, common_drift=math.log1p(-0.02))
    (test,) = facts_of(judged(Outcome.PASS, -0.03, verdict=drifted))["tests"]
    assert test["change"] == pytest.approx(0.97 / 0.98 - 1, abs=1e-5)
    assert test["raw_change"] == -0.03


@pytest.mark.parametrize("more", [{}, {"common_drift": math.log1p(-0.02)}, {"confirmed_change": -0.08}])
def test_a_change_has_the_interval_of_its_verdict_and_no_other(more: dict[str, Any]) -> None:
    slow = verdict(Outcome.REGRESSED, -0.0814, interval=(-0.092, -0.069), **more)
    (test,) = facts_of(judged(Outcome.REGRESSED, -0.0814, verdict=slow))["tests"]
    assert slow.deciding_change is not None
    assert test["change"] == pytest.approx(slow.deciding_change, abs=1e-5)
    assert (test["change_low"], test["change_high"]) == (-0.092, -0.069)


def test_a_change_reads_on_the_page_as_in_its_message() -> None:
    just_above = -0.1854999  # -18.5 %, but rounded to five digits first -0.1855, which is -18.6 %
    (test,) = facts_of(judged(Outcome.REGRESSED, just_above))["tests"]
    assert compared(just_above) in test["message"]
    assert compared(test["change"]) == compared(just_above)


def test_an_invalid_throughput_is_left_out() -> None:
    (test,) = facts_of(judged(Outcome.INVALID, 0.0, verdict=verdict(Outcome.INVALID, reason=Reason.DISTURBED)))["tests"]
    assert test["rate"] is None


def step(of: Measurement, day: int, size: float, **more: Any) -> LastingChange:
    given: dict[str, Any] = {"machine": of.machine, "test": of.test, "key": of.key, "kind": ChangeKind.STEP}
    given |= {"session": f"s{day}", "last_session": f"s{day}", "found_session": f"s{day + 2}"}
    given |= {"time": f"2025-12-{day:02}T03:00:00+00:00", "commit_before": "aaa", "commit_after": "bbb"}
    given |= {"size": size, "low": size - 0.01, "high": size + 0.01, "sessions_since": 7}
    return LastingChange(**given | more)


def test_a_change_of_the_machine_is_told_apart() -> None:
    one = judged(Outcome.PASS, 0.0)
    facts = facts_of(one, changes=[step(one, 3, -0.02, test=None, key=None)])
    SCHEMA.validate(facts)
    assert [change["size"] for change in facts["machine_changes"]] == [-0.02]
    assert facts["tests"][0]["changes"] == []


def test_the_commits_between_which_a_test_became_slower_are_named() -> None:
    slow = judged(Outcome.REGRESSED, -0.1, time="2025-12-09T03:00:00+00:00", commit="new")
    (test,) = facts_of(slow, past=[earlier(8, 1000.0, commit="old")])["tests"]
    assert (test["since"]["commit_before"], test["since"]["commit_after"]) == ("old", "new")


def test_a_change_point_says_since_when() -> None:
    slow = judged(Outcome.REGRESSED, -0.1, time="2025-12-09T03:00:00+00:00")
    past = [earlier(day, 1000.0 if day < 3 else 900.0) for day in range(1, 9)]
    (test,) = facts_of(slow, past=past, changes=[step(slow, 3, -0.1)])["tests"]
    assert (test["since"]["session"], test["since"]["sessions"], test["since"]["before"]) == ("s3", 7, 1000)
    assert [(one["before"], one["after"]) for one in test["changes"]] == [(1000, 900)]


@pytest.mark.parametrize(
    ("slow_days", "changes", "since"),
    [
        (range(4, 9), [(2, 0.1)], ("s4", 6)),
        ((2, 3, 4), [(2, -0.1), (5, 0.1)], ("now", 1)),
        ((2, 3, 4), [(2, -0.1)], ("now", 1)),
    ],
    ids=["other direction", "over in between", "over without a lasting change"],
)
def test_other_change_points_are_not_the_date_of_a_slowdown(
    slow_days: Sequence[int], changes: Sequence[tuple[int, float]], since: tuple[str, int]
) -> None:
    slow = judged(Outcome.REGRESSED, -0.1, time="2025-12-09T03:00:00+00:00")
    past = [earlier(day, 900.0 if day in slow_days else 1000.0) for day in range(1, 9)]
    (test,) = facts_of(slow, past=past, changes=[step(slow, *change) for change in changes])["tests"]
    assert (test["since"]["session"], test["since"]["sessions"]) == since


def test_what_was_slowed_on_purpose_is_not_history() -> None:
    (test,) = facts_of(judged(Outcome.PASS, 0.0), past=[earlier(1, 500.0, is_slowed_on_purpose=True)])["tests"]
    assert test["history"]["rate"] == [1000]


def test_a_report_on_an_earlier_session_knows_nothing_of_later_ones() -> None:
    now = judged(Outcome.PASS, 0.0, time="2025-12-05T03:00:00+00:00")
    facts = facts_of(now, past=[earlier(4, 990.0), earlier(6, 980.0)])
    assert facts["tests"][0]["history"]["rate"] == [990, 1000]


def test_sessions_of_other_machines_are_left_out() -> None:
    facts = facts_of(judged(Outcome.PASS, 0.0), past=[earlier(1, 500.0, machine="another")])
    assert [session["id"] for session in facts["sessions"]] == ["now"]


def test_each_result_points_to_its_session() -> None:
    past = [earlier(1, 500.0, test="t.py::gone"), earlier(2, 600.0), earlier(3, 700.0, test="t.py::gone")]
    facts = facts_of(judged(Outcome.PASS, 0.0), past=past)
    (test,) = facts["tests"]
    assert [facts["sessions"][index]["id"] for index in test["history"]["session"]] == ["s2", "now"]


def test_sessions_of_several_zones_are_in_the_order_of_time() -> None:
    tokyo = earlier(2, 1.0, session="tokyo", time="2025-12-02T08:00:00+09:00")
    utc = earlier(1, 2.0, session="utc", time="2025-12-01T23:30:00+00:00")
    facts = facts_of(judged(Outcome.PASS, 0.0), past=[utc, tokyo])
    assert [session["id"] for session in facts["sessions"]] == ["tokyo", "utc", "now"]


def test_what_changed_since_the_last_session_is_told() -> None:
    before = judged(Outcome.PASS, 0.0, session="s1", environment={"tensorflow": "2.20.0", "threads": "4"})
    now = judged(Outcome.REGRESSED, -0.1, environment={"tensorflow": "2.21.0"})
    past = [earlier(1, 1000.0), earlier(1, 1000.0, test="t.py::gone")]
    (previous,) = facts_of(now, past=past, previous=[before])["previous"]
    assert [(c["name"], c["before"], c["now"]) for c in previous["environment_changes"]] == [
        ("tensorflow", "2.20.0", "2.21.0"),
        ("threads", "4", None),
    ]
    assert previous["newly_regressed"] == [now.test]
    assert previous["absent"] == ["t.py::gone"]


def test_a_program_of_ones_own_beside_a_model_changes_no_environment() -> None:
    program = {"environment": {"command": "1a2b", "torch": "2.9"}, "test": "t.py::program"}
    model = {"environment": {"tensorflow": "2.21.0", "threads": "4"}}
    now = [judged(Outcome.PASS, 0.0, **model), judged(Outcome.PASS, 0.0, **program)]
    before = judged(Outcome.PASS, 0.0, session="s1", **program)
    (previous,) = facts_of(*now, past=[earlier(1, 1000.0)], previous=[before])["previous"]
    assert previous["environment_changes"] == []


def test_a_test_that_passes_again_has_recovered() -> None:
    before, now = judged(Outcome.REGRESSED, -0.1, session="s1"), judged(Outcome.PASS, 0.0)
    (previous,) = facts_of(now, past=[earlier(1, 900.0, "REGRESSED")], previous=[before])["previous"]
    assert previous["recovered"] == [now.test]


def figure_of(one: Measurement, outcome: Outcome) -> Value:
    """What an earlier session's history says of the figure `loss` of this test."""
    return earlier(1, 4.0, outcome, figure=LOSS.figure, test=one.test)


def test_a_test_whose_figure_is_worse_now_has_not_recovered() -> None:
    now = judged(Outcome.PASS, 0.0, figures=(LOSS,))
    facts = facts_of(now, past=[earlier(1, 900.0, "REGRESSED")], previous=[replace(SLOW, session="s1")])
    (previous,) = facts["previous"]
    assert (previous["recovered"], previous["newly_regressed"], previous["other_outcomes"]) == ([], [], [])


def test_a_test_whose_figure_is_good_again_has_recovered() -> None:
    past = [earlier(1, 1000.0), figure_of(PASSED, Outcome.REGRESSED)]
    (previous,) = facts_of(PASSED, past=past, previous=[replace(PASSED, session="s1")])["previous"]
    assert previous["recovered"] == [PASSED.test]


def test_an_outcome_that_changed_otherwise_is_told() -> None:
    now = judged(Outcome.INCONCLUSIVE, -0.1)
    facts = facts_of(now, past=[earlier(1, 1000.0)], previous=[replace(PASSED, session="s1")])
    SCHEMA.validate(facts)
    assert facts["previous"][0]["other_outcomes"] == [now.test]


def test_a_regressed_test_has_the_commands_that_rerun_and_accept_it() -> None:
    (test,) = facts_of(judged(Outcome.REGRESSED, -0.1, test="a.py::b"))["tests"]
    assert [one["command"] for one in test["commands"]] == ["pytest a.py::b", "pytest a.py::b --tfperf-accept=a.py::b"]


def test_owner_and_known_loss_are_facts() -> None:
    known = verdict(Outcome.REGRESSED, -0.13, interval=(-0.15, -0.11), acknowledged=acknowledged())
    facts = facts_of(judged(Outcome.REGRESSED, -0.13, verdict=known, owner="team-vision"))
    SCHEMA.validate(facts)
    (test,) = facts["tests"]
    assert (test["owner"], test["story"].endswith("; acknowledged")) == ("team-vision", True)
    loss = {"figure": "throughput", "change": -0.13, "until": "2027-01-15", "why": "bug 123", "standing": "holds"}
    assert test["acknowledged"] == [loss]
    assert facts["headline"] == "1 of 1 throughput test regressed (acknowledged)"


def test_a_figure_beyond_its_limit_has_no_command_that_accepts_it() -> None:
    beyond = replace(LOSS, baseline=baseline(2.0, key=PASSED.key._replace(figure="loss")))
    (test,) = facts_of(judged(Outcome.PASS, 0.0, test="a.py::b", figures=(beyond,)))["tests"]
    assert [one["command"] for one in test["commands"]] == ["pytest a.py::b"]


def test_the_page_and_the_message_name_the_same_slower_part() -> None:
    found = Breakdown(
        input=Input.FETCHED,
        bound=Bound.COMPUTE,
        pipeline_examples_per_sec=9800.0,
        device_data_examples_per_sec=700.0,
        slower=Slower.STEP,
    )
    drifted = verdict(Outcome.REGRESSED, -0.4, common_drift=math.log1p(-0.3))
    (test,) = facts_of(judged(Outcome.REGRESSED, -0.4, verdict=drifted, breakdown=found))["tests"]
    (slower,) = [text for label, text in test["breakdown"]["lines"] if label == "slower"]
    assert slower in test["message"]


@pytest.mark.parametrize(
    ("change", "red", "is_advised"),
    [(0.1, [], True), (-0.41, [], False), (0.1, [session_verdict()], False)],
    ids=["a gain", "slower than its baseline", "a gain on a red machine"],
)
def test_only_a_gain_on_a_good_machine_is_advised_to_be_recorded(change: float, red: Any, is_advised: bool) -> None:
    (test,) = facts_of(judged(Outcome.IMPROVED, change), verdicts=red)["tests"]
    assert ("Keep the gain: record a new baseline" in [one["label"] for one in test["commands"]]) is is_advised


def test_a_traced_regression_has_the_command_that_opens_its_trace() -> None:
    profile = Profile(folder="my traces/a/today", logdir="my traces")
    (test,) = facts_of(judged(Outcome.REGRESSED, -0.1, profile=profile))["tests"]
    command = {"label": "Open its trace, my traces/a/today", "command": "tensorboard --logdir 'my traces'"}
    assert command in test["commands"]


def test_runs_of_thousands_of_windows_are_thinned_for_the_plot() -> None:
    (test,) = facts_of(measurement(runs=(replace(run_at(1000.0), windows=run_at(1000.0).windows * 2000),)))["tests"]
    (run,) = test["runs"]
    assert len(run["rates"]) <= 300
    assert run["end_seconds"][-1] == pytest.approx(0.064 * 10_000)


def scaled(**more: Any) -> list[dict[str, Any]]:
    many = [
        judged(Outcome.PASS, 0.0, topology=f"1x{gpus}", throughput=throughput(rate), test=f"t.py::t[{gpus}]")
        for gpus, rate in ((1, 100.0), (8, 720.0))
    ]
    return facts_of(*many, **more)["scaling"]


def test_scaling_is_throughput_per_device_against_the_fewest() -> None:
    (group,) = scaled()
    assert [point["efficiency"] for point in group["points"]] == [1, 0.9]


def test_a_documents_curve_of_the_same_workload_is_beside_it() -> None:
    key = judged(Outcome.PASS, 0.0).key
    rows = [
        baseline(rate, machine="dgx", provenance=Provenance.PUBLISHED, key=key._replace(topology=topology))
        for topology, rate in (("1x1", 200.0), ("1x8", 1500.0))
    ]
    (group,) = scaled(published=rows)
    assert [point["rate"] for point in group["documents"][0]["points"]] == [200, 1500]


def test_a_workload_measured_on_one_number_of_devices_does_not_scale() -> None:
    assert facts_of(judged(Outcome.PASS, 0.0))["scaling"] == []


def test_a_published_figure_is_beside_this_machines() -> None:
    other = Workload(model="vgg16", batch_size=64).id
    key = judged(Outcome.PASS, 0.0).key
    rows = [
        baseline(500.0, machine="dgx", key=one, source="doc.md, table 1", provenance=Provenance.PUBLISHED)
        for one in (key, key._replace(workload=other))
    ]
    facts = facts_of(judged(Outcome.PASS, 0.0), published=rows)["documents"]
    assert [(one["document"], one["here"], one["ratio"]) for one in facts] == [
        ("doc.md", 1000, 2),
        ("doc.md", None, None),
    ]


def test_a_figure_has_a_plot_of_its_sessions_in_a_unit_that_is_easy_to_read() -> None:
    figure = Figure("peak_memory")
    row = baseline(16.0 * 2**30, key=judged(Outcome.PASS, 0.0).key._replace(figure="peak_memory"), unit="bytes")
    memory = Verdict(figure=figure, value=18.0 * 2**30, outcome=Outcome.PASS, baseline=row, threshold=2.0**30)
    before = earlier(1, 17.0 * 2**30, figure=figure, unit="bytes")
    (test,) = facts_of(judged(Outcome.PASS, 0.0, figures=(memory,)), past=(before,))["tests"]
    plot = test["figures"][0]["plot"]
    assert (plot["unit"], plot["history"]["rate"], plot["fails"]) == ("GiB", [17, 18], [17])


PROVISIONAL = baseline(provenance=Provenance.PROVISIONAL)
NONE = verdict(Outcome.NO_BASELINE, baseline=None, change=None)


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        ([judged(Outcome.PASS, 0.0)], "passed"),
        ([judged(Outcome.IMPROVED, 0.1)], "passed"),
        ([interleaved(Outcome.PASS, 1.0)], "passed"),
        ([judged(Outcome.REGRESSED, -0.1)], "regressed"),
        ([judged(Outcome.PASS, 0.0), judged(Outcome.REGRESSED, -0.1)], "regressed"),
        ([interleaved(Outcome.REGRESSED, 0.9)], "regressed"),
        ([judged(Outcome.PASS, 0.0, figures=(LOSS,))], "regressed"),
        ([judged(Outcome.INCONCLUSIVE, -0.1)], "in_doubt"),
        ([judged(Outcome.TOO_NOISY, -0.1)], "in_doubt"),
        ([judged(Outcome.REGRESSED, -0.1, verdict=verdict(Outcome.REGRESSED, -0.1, baseline=PROVISIONAL))], "in_doubt"),
        ([judged(Outcome.PASS, 0.0, verdict=verdict(baseline=PROVISIONAL))], ""),
        ([judged(Outcome.PASS, 0.0, verdict=verdict(is_floor=True))], ""),
        ([judged(Outcome.NO_BASELINE, 0.0, verdict=NONE)], ""),
        ([judged(Outcome.PASS, 0.0), judged(Outcome.NO_BASELINE, 0.0, verdict=NONE)], ""),
        ([judged(Outcome.INVALID, 0.0)], ""),
        ([measurement()], ""),
        ([REFUSED], ""),
    ],
)
def test_a_test_counts_as_judged_by_what_its_worst_call_says(calls: Sequence[Measurement], found: str) -> None:
    counts = facts_of(*calls)["judged"]
    words = ("regressed", "in_doubt", "passed")
    assert counts == {"of": 1, "tests": int(bool(found)), **{word: int(word == found) for word in words}}


def test_what_was_not_measured_is_not_judged_and_one_of_the_tests() -> None:
    died = {PASSED.test: TfperfError("the worker died"), "t.py::test_dies": TfperfError("the worker died")}
    counts = facts_of(PASSED, not_measured=died)["judged"]
    assert counts == {"of": 2, "tests": 0, "regressed": 0, "in_doubt": 0, "passed": 0}
