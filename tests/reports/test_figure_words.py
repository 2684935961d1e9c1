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
from pytest_tfperf.judging.consequence import consequence
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.pairs import PairsTest, Scatter, Terms
from pytest_tfperf.judging.session_effects import CommonDrift
from pytest_tfperf.judging.target import Target
from pytest_tfperf.reports.measurement_table import figure_table, measurement_table
from pytest_tfperf.reports.message import message, ways_out_of_doubt
from pytest_tfperf.reports.verdict import fact, in_brief, written
from tests.helpers.expected import SameTexts
from tests.helpers.measurements import KEY, NOISE, baseline, interleaved, measurement, pair, run_at, throughput, verdict

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


A_GIB, B_GIB = (run_at(1000.0, figures={"peak_memory": size * GIB}) for size in (16.8, 18.3))
DRIFTED = judge(
    Evidence(
        throughput=throughput(980.0),
        figure=Figure("wait", unit="s"),
        values=[1.1],
        target=Target(baseline(1.0, key=KEY._replace(figure="wait"), unit="s"), noise=NOISE),
        tolerance=Tolerance(),
        drift=CommonDrift(math.log(0.98), 20),
        max_runs=1,
    )
)


def loss(*places: str, note: str = "", **more: Any) -> Verdict:
    row = baseline(2.0, key=KEY._replace(figure="loss"), note=note)
    return memory(**{"figure": Figure("loss"), "places": places, "baseline": row} | more)


OTHER_PLACE: dict[str, Any] = {"outcome": Outcome.INVALID, "reason": Reason.OTHER_PLACE}


def on_its_scale(figure: Figure, was: float, now: float, place: str = "") -> Measurement:
    """A figure that is judged by eight runs against its row."""
    row = baseline(was, key=KEY._replace(figure=figure.name), unit=figure.unit or "", note=place and f"read {place}")
    evidence = Evidence(
        throughput=throughput(*[1000.0] * 8),
        figure=figure,
        values=[now] * 8,
        places=(place,) if place else (),
        target=Target(row, noise=NOISE),
        tolerance=Tolerance(),
    )
    return with_figures(judge(evidence), runs=tuple(run_at(1000.0, figures={figure.name: now}) for _ in range(8)))


MESSAGES = {
    "a count": on_its_scale(Figure("graph_breaks"), 0.0, 3.0, "up to step 10"),
    "a larger count": on_its_scale(Figure("compilations"), 2.0, 3.0, "up to step 10"),
    "a share": on_its_scale(Figure("input_wait"), 0.12, 0.31),
    "a mean over steps": on_its_scale(Figure("loss", steps=(50, 100)), 2.0, 2.3, "over steps 50 to 100"),
    "a mean over other steps than the row's": with_figures(
        loss(
            "over steps 50 to 100",
            note="read over steps 40 to 90",
            figure=Figure("loss", steps=(50, 100)),
            **OTHER_PLACE,
        )
    ),
    "a figure alone": with_figures(memory()),
    "on both sides": with_figures(memory(rule=Rule.REFERENCE_ENVIRONMENT), pairs=(Pair(A_GIB, B_GIB, 0.0, 0.001),) * 2),
    "below a slower throughput": with_figures(memory(), verdict=verdict(Outcome.REGRESSED, -0.13)),
    "before a throughput in doubt": with_figures(
        Verdict(figure=Figure("loss"), value=2.0, outcome=Outcome.INCONCLUSIVE),
        memory(),
        verdict=verdict(Outcome.INCONCLUSIVE, -0.06),
    ),
    "of a rank": with_figures(memory(rank="rank 3 of 8 on a")),
    "not measured": with_figures(memory(value=None, outcome=Outcome.INVALID, reason=Reason.NOT_MEASURED)),
    "not counted": with_figures(
        Verdict(figure=Figure("recompiles"), outcome=Outcome.INVALID, reason=Reason.NOT_MEASURED)
    ),
    "beyond a limit": with_figures(
        Verdict(
            figure=Figure("eval_loss", field="a", limit=3),
            value=3.25,
            outcome=Outcome.REGRESSED,
            reason=Reason.BEYOND_LIMIT,
        )
    ),
    "in another unit": with_figures(
        memory(
            figure=Figure("eval_time", unit="min"),
            value=2.0,
            outcome=Outcome.INVALID,
            reason=Reason.OTHER_UNIT,
            baseline=baseline(2.0, key=KEY._replace(figure="eval_time"), unit="s"),
        )
    ),
    "read elsewhere than the row": with_figures(loss("at step 460", note="read at step 400", **OTHER_PLACE)),
    "read at two places": with_figures(loss("at step 9", "at step 8", **OTHER_PLACE)),
    "read where the row does not say": with_figures(loss("at the end", **OTHER_PLACE)),
    "read at a step": with_figures(loss("at step 400", value=2.6, change=0.3, confirmed_change=None)),
    "no number": with_figures(loss(value=math.nan, change=math.nan)),
    "without the baseline that its throughput has": with_figures(
        memory(outcome=Outcome.NO_BASELINE, baseline=None, change=None, confirmed_from=None)
    ),
    "with the session's drift": with_figures(replace(DRIFTED, outcome=Outcome.REGRESSED)),
}


def test_messages(same_texts: SameTexts) -> None:
    same_texts("figures", {case: [in_brief(found), *message(found)] for case, found in MESSAGES.items()})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (0.0, "level with a's 5000"),
        (1.0, "1 more than a's 5000"),
        (500.0, "500 more than a's 5000"),
    ],
)
def test_a_change_of_a_count_is_worded_as_a_count(change: float, text: str) -> None:
    breaks = Verdict(figure=Figure("graph_breaks"), rule=Rule.OTHER_SIDE, value=5000 + change, change=change)
    assert fact(measurement(), replace(breaks, confirmed_from=5000.0)).endswith(text)


def test_a_small_change_of_a_figure_that_does_not_vary_is_not_worded_as_0_percent() -> None:
    rows = Verdict(figure=Figure("rows", absolute=0.5), rule=Rule.OTHER_SIDE, value=5001, change=1.0)
    assert fact(measurement(), replace(rows, confirmed_from=5000.0)).endswith("1 higher than a's 5000")


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


def test_a_figure_that_is_invalid_leaves_its_tests_throughput_in_the_table() -> None:
    invalid = memory(outcome=Outcome.INVALID, reason=Reason.OTHER_PLACE)
    _, row = map(str, measurement_table([with_figures(invalid)]))
    assert row.startswith("INVALID (peak memory)")
    assert "1,000" in row


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
    interval = math.expm1(test.interval[0]), math.expm1(test.interval[1])
    found = interleaved(
        Outcome.INCONCLUSIVE,
        1 + math.expm1(test.middle),
        reason=reason,
        interval=interval,
        tolerance=Tolerance(-0.02, 0.02),
        pairs=tuple(pair(change) for change in test.changes),
    )
    return "; or ".join(ways_out_of_doubt(found))


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
