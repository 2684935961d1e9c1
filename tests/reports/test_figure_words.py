"""How figures beside the throughput are worded."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import Pair
from pytest_tfperf.core.verdict import Consequence, Outcome, Reason, Rule, Tolerance, Verdict
from pytest_tfperf.features.ci.outputs import properties
from pytest_tfperf.judging.common_drift import CommonDrift
from pytest_tfperf.judging.consequence import consequence
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.pairs import PairsTest, Scatter, Terms
from pytest_tfperf.judging.target import Target
from pytest_tfperf.lines import plain
from pytest_tfperf.reports.figures import (
    figure_fact,
    figure_properties,
    figure_table,
    ways_out_of_doubt,
    written,
)
from pytest_tfperf.reports.measurement_table import measurement_table
from pytest_tfperf.reports.message import in_brief, message
from tests.helpers.measurements import KEY, NOISE, TEST, baseline, measurement, run_at, throughput, verdict

GIB = 2.0**30


def memory(**more: Any) -> Verdict:
    """Peak memory, 9 % more than its baseline of 16.8 GiB in three runs."""
    given: dict[str, Any] = {
        "figure": Figure("peak_memory"),
        "value": 18.3 * GIB,
        "outcome": Outcome.REGRESSED,
        "reason": Reason.CONFIRMED,
        "baseline": baseline(16.8 * GIB, key=KEY._replace(figure="peak_memory"), unit="bytes", date="2026-11-24"),
        "change": 1.5 * GIB,
        "confirmed_change": 1.5 * GIB,
        "confirmed_from": 16.8 * GIB,
        "threshold": 0.02 * 16.8 * GIB,
    }
    return Verdict(**given | more)


def with_figures(*figures: Verdict, **more: Any) -> Measurement:
    runs = tuple(run_at(1000.0, figures={"peak_memory": 18.3 * GIB}) for _ in range(3))
    return measurement(**{"verdict": verdict(), "figures": figures, "runs": runs} | more)


def test_a_regression_of_a_figure_alone_names_the_figure_first() -> None:
    assert plain(message(with_figures(memory()))).splitlines() == [
        "peak memory 18.3 GiB, 8.9 % more than 16.8 GiB: resnet50-b64-replicated-device on 8x Tesla P100 (box)",
        "  threshold   fails from 17.1 GiB    (baseline 16.8 GiB, tolerance 2 % and 64 MiB)",
        "  baseline    measured (2026-11-24), 5 runs",
        "  confirmed   3 fresh runs: 18.3 GiB  18.3 GiB  18.3 GiB",
        "  throughput  1,000 images/s: PASS, within the tolerance",
        f"  rerun       pytest '{TEST}'",
        f"  accept      pytest '{TEST}' --update-baselines    (if it is intended; commit the rows)",
    ]


def test_pairs_show_the_figure_on_both_sides() -> None:
    a, b = (run_at(1000.0, figures={"peak_memory": size * GIB}) for size in (16.8, 18.3))
    found = memory(rule=Rule.REFERENCE_ENVIRONMENT)
    text = plain(message(with_figures(found, pairs=(Pair(a, b, 0.0, 0.001),) * 2)))
    assert "8.9 % more than in the reference environment" in text.splitlines()[0]
    pairs = "2 interleaved pairs with the reference environment: 16.8 GiB -> 18.3 GiB  16.8 GiB -> 18.3 GiB"
    assert f"  confirmed   {pairs}" in text.splitlines()


def test_a_slower_throughput_is_named_before_its_figures() -> None:
    slow = verdict(Outcome.REGRESSED, -0.13, threshold=0.05)
    lines = plain(message(with_figures(memory(), verdict=slow))).splitlines()
    assert "13.0 % slower than 1,000" in lines[0]
    assert lines[1] == "  figure      REGRESSED: peak memory 18.3 GiB, 8.9 % more than 16.8 GiB"


def test_a_regression_of_a_figure_is_named_before_a_throughput_in_doubt() -> None:
    doubtful = verdict(Outcome.INCONCLUSIVE, -0.06, threshold=0.05)
    loss = Verdict(figure=Figure("loss"), value=2.0, outcome=Outcome.INCONCLUSIVE)
    found = with_figures(loss, memory(), verdict=doubtful)
    assert plain(message(found)).startswith("peak memory 18.3 GiB, 8.9 % more than 16.8 GiB: ")
    assert in_brief(found).startswith("REGRESSED: peak memory ")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        pytest.param(
            memory(rank="rank 3 of 8 on a"), "peak memory 18.3 GiB of rank 3 of 8 on a, 8.9 % more", id="rank"
        ),
        pytest.param(
            memory(value=None, outcome=Outcome.INVALID, reason=Reason.NOT_MEASURED),
            "peak memory: not measured: neither the framework nor the system tells it here, or it ended within a "
            "second",
            id="not-measured",
        ),
        pytest.param(
            Verdict(
                figure=Figure("eval_loss", field="a", limit=3),
                value=3.25,
                outcome=Outcome.REGRESSED,
                reason=Reason.BEYOND_LIMIT,
            ),
            "eval_loss 3.25, beyond its limit of 3",
            id="limit",
        ),
    ],
)
def test_a_fact(found: Verdict, text: str) -> None:
    assert figure_fact(found).startswith(text)


@pytest.mark.parametrize(
    ("figure", "value", "text"),
    [
        (Figure("peak_memory"), 18.3 * GIB, "18.3 GiB"),
        (Figure("peak_memory"), 236.9 * 2**20, "237 MiB"),
        (Figure("peak_memory"), 1023.9 * 2**20, "1,024 MiB"),
        (Figure("first_step"), 1.4156, "1.416 s"),
        (Figure("loss"), 6.909616, "6.91"),
        (Figure("bleu", field="bleu", unit="points"), 31.25, "31.25 points"),
    ],
)
def test_a_value(figure: Figure, value: float, text: str) -> None:
    assert written(figure, value) == text


@pytest.mark.parametrize(
    ("outcome", "happens"),
    [
        (Outcome.PASS, Consequence.PASSES),
        (Outcome.IMPROVED, Consequence.PASSES),
        (Outcome.REGRESSED, Consequence.FAILS),
        (Outcome.INVALID, Consequence.ERRORS),
        (Outcome.INCONCLUSIVE, Consequence.WARNS),
        (Outcome.NO_BASELINE, Consequence.PASSES),
    ],
)
def test_a_figure_does_to_its_test_what_a_throughput_does(outcome: Outcome, happens: Consequence) -> None:
    found = with_figures(replace(memory(), outcome=outcome))
    assert consequence(found, require_baseline=False, strict=False) is happens


def test_the_nightly_gate_fails_a_figure_without_a_baseline() -> None:
    found = with_figures(memory(outcome=Outcome.NO_BASELINE, baseline=None))
    assert consequence(found, require_baseline=True, strict=False) is Consequence.FAILS


def test_the_terminal_shows_only_figures_that_did_not_pass() -> None:
    passed = Verdict(figure=Figure("loss"), value=2.3, outcome=Outcome.PASS)
    _, heading, *rows = figure_table([with_figures(memory(), passed)])
    assert heading.split()[:3] == ["outcome", "figure", "workload"]
    assert [row.split()[:3] for row in rows] == [["REGRESSED", "peak", "memory"]]


def test_the_terminal_shows_nothing_where_all_figures_passed() -> None:
    passed = Verdict(figure=Figure("loss"), value=2.3, outcome=Outcome.PASS)
    assert figure_table([with_figures(passed)]) == []


def test_junit_has_each_figure_by_its_name() -> None:
    found = figure_properties(with_figures(memory()))
    assert (found["figure.peak_memory"], found["figure.peak_memory.outcome"]) == (18.3 * GIB, "REGRESSED")


@pytest.mark.parametrize("name", ["outcome", "change", "unit", "machine", "examples_per_sec", "loss_outcome"])
def test_a_figure_overwrites_no_other_property_whatever_its_name(name: str) -> None:
    loss = Verdict(figure=Figure("loss"), value=2.3, outcome=Outcome.PASS)
    own = Verdict(figure=Figure(name, field="x"), value=5.0, outcome=Outcome.PASS)
    before, after = (dict(properties([with_figures(*figures)])) for figures in ((loss,), (loss, own)))
    assert {key: after[key] for key in before} == before
    assert after[f"tfperf_figure.{name}"] == 5.0


def test_a_value_in_another_unit_than_its_row_names_both_and_the_next_step() -> None:
    time = memory(
        figure=Figure("eval_time", unit="min"),
        value=2.0,
        outcome=Outcome.INVALID,
        reason=Reason.OTHER_UNIT,
        change=None,
        threshold=None,
        baseline=baseline(2.0, key=KEY, unit="s"),
    )
    lines = plain(message(with_figures(time))).splitlines()
    assert lines[0].startswith("eval_time 2 min, and its baseline is 2 s: ")
    assert lines[1] == "  next        record the row again with --update-baselines, or delete it"
    assert figure_table([with_figures(time)])[-1].split()[-4:] == ["2", "min", "2", "s"]
    assert figure_properties(with_figures(time))["figure.eval_time.baseline"] is None


@pytest.mark.parametrize(
    ("places", "note", "says", "step"),
    [
        (
            ["at step 460"],
            "read at step 400",
            "loss was read at step 460, and its baseline is read at step 400",
            "400",
        ),
        (
            ["at step 9", "at step 8"],
            "",
            "loss was read at step 9 and at step 8, and its baseline does not say",
            "9",
        ),
        (["at the end"], "", "loss was read at the end, and its baseline does not say where", ""),
    ],
    ids=["row", "runs", "unknown"],
)
def test_values_of_different_places_are_named_with_the_next_step(
    places: list[str], note: str, says: str, step: str
) -> None:
    loss = memory(
        figure=Figure("loss"),
        places=tuple(places),
        outcome=Outcome.INVALID,
        reason=Reason.OTHER_PLACE,
        baseline=baseline(2.0, key=KEY, note=note),
    )
    first, following, *_ = plain(message(with_figures(loss))).splitlines()
    assert first.startswith(says)
    assert (f"Figure('loss', at_step={step}, ...)" in following) == bool(step)
    assert following.startswith("  next ")


def test_a_message_names_the_step_that_a_value_is_of() -> None:
    now = {"figure": Figure("loss"), "value": 2.6, "change": 0.3, "confirmed_change": None}
    one = memory(**now, places=("at step 400",), baseline=baseline(2.3, key=KEY))
    assert figure_fact(one) == "loss 2.6 at step 400, 13.0 % higher than 2.3"


def test_a_figures_change_is_told_with_the_one_that_was_judged_where_it_reads_differently() -> None:
    wait = Figure("wait", unit="s")
    evidence = Evidence(
        throughput=throughput(980.0),
        figure=wait,
        values=[1.1],
        target=Target(baseline(1.0, key=KEY._replace(figure="wait"), unit="s"), noise=NOISE),
        tolerance=Tolerance(),
        drift=CommonDrift(math.log(0.98), 20),
        max_runs=1,
    )
    assert figure_fact(judge(evidence)) == "wait 1.1 s, 10.0 % higher than 1 s (7.8 % higher than the 1.02 s expected)"


def test_a_figure_that_is_invalid_leaves_its_tests_throughput_in_the_table() -> None:
    invalid = memory(outcome=Outcome.INVALID, reason=Reason.OTHER_PLACE)
    _, row = map(str, measurement_table([with_figures(invalid)]))
    assert row.startswith("INVALID (peak memory)")
    assert "1,000" in row


def test_a_figure_without_the_baseline_that_its_throughput_has_is_named_with_the_command_that_records_it() -> None:
    lines = plain(message(with_figures(memory(outcome=Outcome.NO_BASELINE, baseline=None, change=None)))).splitlines()
    assert lines[0].startswith("peak memory 18.3 GiB, without a baseline: ")
    assert lines[-1] == f"  record      pytest '{TEST}' --update-baselines"


def test_a_ci_system_gets_the_change_of_a_figure_as_a_fraction() -> None:
    found = figure_properties(with_figures(memory()))["figure.peak_memory.confirmed_change"]
    assert found == pytest.approx(1.5 / 16.8)


def test_a_loss_that_is_no_number_is_not_compared() -> None:
    one = memory(figure=Figure("loss"), value=float("nan"), change=float("nan"), baseline=baseline(0.7, key=KEY))
    assert figure_fact(one) == "loss nan, and not 0.7"


def test_a_row_whose_throughput_is_fine_names_the_figure_that_is_not() -> None:
    rows = [str(line).split("  ")[0] for line in measurement_table([with_figures(memory()), with_figures()])]
    assert rows[1:] == ["REGRESSED (peak memory)", "PASS"]


# What decides where noise leaves a throughput in doubt


def pairs_with(changes: list[float], tolerance: float) -> PairsTest:
    """The last pairs of a comparison whose noise is assumed."""
    accepted = -math.log1p(-tolerance)
    return PairsTest(
        changes=changes, accepted=accepted, known=Scatter(3e-4, 4), is_assumed=True, terms=Terms(max_pairs=len(changes))
    )


def ways(test: PairsTest, reason: Reason) -> str:
    doubt = verdict(Outcome.INCONCLUSIVE, reason=reason, tolerance=Tolerance(-0.02, 0.02))
    interval = math.expm1(test.interval[0]), math.expm1(test.interval[1])
    lines = ways_out_of_doubt(doubt, math.expm1(test.middle), interval, len(test.changes), "pair", "")
    return "".join(line.text for line in lines)


def scattered(loss: float, by: float, count: int = 20) -> list[float]:
    return [-loss + by * (-1) ** number for number in range(count)]


@given(st.floats(0.02, 0.2), st.floats(0.01, 0.3), st.integers(6, 20))
def test_the_tolerance_that_is_named_decides_these_pairs(loss: float, by: float, count: int) -> None:
    test = pairs_with(scattered(loss, by, count), 0.02)
    outcome, reason, _ = test.decided()
    text = ways(test, reason) if outcome is Outcome.INCONCLUSIVE else ""
    if "tolerance=" in text:
        tolerance = float(text.partition("tolerance=")[2].partition(";")[0])
        assert pairs_with(list(test.changes), tolerance).decided()[0] is Outcome.PASS


def test_the_number_of_pairs_that_is_named_fails_this_loss() -> None:
    test = pairs_with(scattered(0.08, 0.2), 0.02)
    assert test.decided()[0] is Outcome.INCONCLUSIVE
    text = ways(test, Reason.WITHIN_NOISE)
    assert text.startswith(
        "free the machine of other work; or accept the loss that these pairs allow for: tolerance=0."
    )
    needed = int(text.partition("about ")[2].split()[0])
    low, high = pairs_with(scattered(0.08, 0.2, needed), 0.02).interval
    assert math.expm1(high) == pytest.approx(-0.02, abs=0.01)
    assert low < high


@pytest.mark.parametrize("reason", [Reason.NOT_PROVED, Reason.SUSPECTED, Reason.DRIFT_UNKNOWN])
def test_what_noise_is_no_reason_for_has_no_such_way(reason: Reason) -> None:
    assert ways(pairs_with(scattered(0.08, 0.2), 0.02), reason) == ""
