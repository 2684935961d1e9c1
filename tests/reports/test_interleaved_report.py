"""The message and the table of measurements beside another side."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from textwrap import dedent
from typing import Any

import pytest

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.profile import Bound, Breakdown, Growth, Input, Profile, Slower
from pytest_tfperf.core.run import StepParts
from pytest_tfperf.core.throughput import DivergedAt
from pytest_tfperf.core.verdict import Outcome, Reason, Tolerance, Verdict
from pytest_tfperf.lines import plain
from pytest_tfperf.reports.invalid import disturbance_fact
from pytest_tfperf.reports.measurement_table import interleaved_table, latest_interleaved
from pytest_tfperf.reports.message import message
from pytest_tfperf.reports.verdict import headline, in_brief, why_of
from tests.helpers.measurements import BUSY, WORKLOAD, baseline, interleaved, pair, run, throughput

INPUT_BOUND = Breakdown(
    input=Input.FETCHED, bound=Bound.INPUT, pipeline_examples_per_sec=910.0, device_data_examples_per_sec=2000.0
)
INVALID = interleaved(Outcome.INVALID, discarded_pairs=(pair(0.0, disturbance=BUSY),))
WITH_XLA = WORKLOAD.with_(xla=True)


def required(ratio: float, least: float, outcome: Outcome = Outcome.REGRESSED, **more: Any) -> Measurement:
    """A comparison whose test requires a ratio."""
    return interleaved(outcome, ratio, a={"at_least": least}, **more)


def test_a_slower_side_b_fails_with_all_that_is_known() -> None:
    found = interleaved(
        breakdown=replace(INPUT_BOUND, slower=Slower.PIPELINE), discarded_pairs=(pair(-0.4, disturbance=BUSY),)
    )
    expected = dedent("""\
        resnet50-b64-replicated-device, tensorflow 2.21.0 is 10 % slower than tensorflow 2.16.2 on 8x Tesla P100 (box): ratio 0.900, 95 % CI 0.890 to 0.910
          a           1,000 images/s: tensorflow 2.16.2
          b           900.0 images/s: tensorflow 2.21.0
          tolerance   2 %: down to a ratio of 0.98
          pairs       -10.0 %  -10.4 %  -9.6 %: the slowdown is confirmed in 3 fresh pairs
          discarded   pair at -40.0 %: other processes used 43 % of 2 cores, the busiest was make (pid 4711)
          b's input   the limit: the pipeline alone gives 910.0 images/s
          b's slower  the input pipeline: on device data the same training gives 2,000 images/s
          environment tensorflow 2.16.2 -> 2.21.0
          rerun       pytest 'perf_tests/test_a.py::test_b[1]'""")  # noqa: E501
    assert plain(message(found)) == expected


def test_of_a_slower_program_the_operations_that_grew_are_named() -> None:
    parts = (StepParts(input=0.0, compute=0.0014, other=0.0), StepParts(input=0.0, compute=0.0078, other=0.0))
    a, b = (run(step_parts=of_side) for of_side in parts)
    mm = Growth(name="aten::mm", type="aten::mm", before_seconds=0.0004, seconds=0.0052, before_count=5, count=31)
    found = interleaved(pairs=(replace(pair(-0.1), a=a, b=b),), profile=Profile(steps=10, grown=(mm,)))
    assert plain(message(found)).split("\n")[5:8] == [
        "  step        input 0 ms -> 0 ms, compute 1.4 ms -> 7.8 ms, other 0 ms -> 0 ms: compute takes 6.4 ms longer",
        "  grew        aten::mm 0.4 -> 5.2 ms a step, calls 5 -> 31",
        "  environment tensorflow 2.16.2 -> 2.21.0",
    ]
    failed = plain(message(replace(found, profile=Profile(fault="no operation was seen"))))
    assert "\n  profile     none: no operation was seen\n" in failed


def test_a_ratio_below_the_documents_names_both_topologies_and_the_documents_figures() -> None:
    rows = (
        baseline(700.0, machine="dgx1-p100", source="dgx1.md"),
        baseline(100.0, machine="dgx1-p100", source="dgx1.md"),
    )
    a = {"topology": "1x1", "workload": WORKLOAD, "at_least": 6.3, "document": rows[1]}
    text = plain(message(interleaved(ratio=6.0, a=a, document=rows[0])))
    subject = "resnet50-b64-replicated-device"
    assert text.startswith(f"{subject} on 1x8 over {subject} on 1x1 on 8x Tesla P100 (box): ratio 6.000")
    assert "\n  threshold   fails below 6.300    (the documents' 7.000, less the tolerance)\n" in text
    assert "\n  document    700.0 / 100.0 on dgx1-p100: dgx1.md; over dgx1.md\n" in text
    assert "4.8 % below the required 6.300 in " in text  # no slowdown: b may be far faster than a


def test_a_pass_names_no_slower_part_and_no_rerun() -> None:
    unbounded = Tolerance(None, 0.02)
    text = plain(message(interleaved(Outcome.PASS, breakdown=INPUT_BOUND, tolerance=unbounded)))
    assert ("b's input" in text, "b's slower" in text, "rerun" in text) == (True, False, False)
    assert "\n  tolerance   any slowdown\n" in text


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (interleaved(ratio=1.0001), "tensorflow 2.21.0 is level with tensorflow 2.16.2 on 8x Tesla P100 (box)"),
        (interleaved(ratio=1.25), "tensorflow 2.21.0 is 25.0 % faster than tensorflow 2.16.2"),
        (
            interleaved(a={"environment": {}}, environment={}),
            "resnet50-b64-replicated-device, b is 10 % slower than a on",
        ),
        (interleaved(interval=(-0.11, math.inf)), "95 % CI unknown"),
        (
            interleaved(workload=WITH_XLA),
            "resnet50-b64-replicated-device-xla is 10 % slower than resnet50-b64-replicated-device on",
        ),
        (
            INVALID,
            f"tensorflow 2.21.0 against tensorflow 2.16.2 on 8x Tesla P100 (box): INVALID: {disturbance_fact(BUSY)}",
        ),
    ],
    ids=["level", "faster", "same software", "no interval", "two workloads", "invalid"],
)
def test_the_headline_names_both_sides(found: Measurement, text: str) -> None:
    assert text in headline(found)


def test_pairs_that_ran_beside_other_work_are_said_to() -> None:
    uneven = replace(pair(-0.11, disturbance=BUSY), is_even=False)
    text = plain(message(interleaved(pairs=(pair(-0.1), pair(-0.1, disturbance=BUSY), uneven, uneven))))
    busy = disturbance_fact(BUSY)
    assert f"disturbed   1 of 4 pairs, on both sides: {busy}\n" in text
    assert f"disturbed   2 of 4 pairs, one side more than the other, as in each try: {busy}\n" in text


@pytest.mark.parametrize(
    ("found", "advice"),
    [
        (INVALID, "end the other processes"),
        (
            interleaved(
                Outcome.INVALID, a={"throughput": throughput(1.0, loss=math.nan, diverged=DivergedAt(1, 1, 1))}
            ),
            "look in the input pipeline for NaN",
        ),
    ],
    ids=["disturbed", "diverged"],
)
def test_an_invalid_comparison_has_a_next_step(found: Measurement, advice: str) -> None:
    assert f"\n  next        {advice}" in plain(message(found))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (interleaved(), "REGRESSED: b is 10 % slower than a, ratio 0.900"),
        (INVALID, f"INVALID: {disturbance_fact(BUSY)}"),
        (required(1.99, 2.5), "REGRESSED: ratio 1.990, 20.4 % below the required 2.500"),
        (required(2.4999, 2.5), "REGRESSED: ratio 2.500, just below the required 2.500"),
        (required(2.6, 2.5, Outcome.PASS), "PASS: ratio 2.600, at least the required 2.500"),
    ],
    ids=["slower", "invalid", "below the required ratio", "just below it", "as required"],
)
def test_a_comparison_in_brief_is_its_outcome_and_why(found: Measurement, text: str) -> None:
    assert in_brief(found) == text


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            required(2.4, 2.5, Outcome.INCONCLUSIVE, reason=Reason.WITHIN_NOISE),
            "within noise: 4 % below the required 2.500 in 3 fresh pairs",
        ),
        (
            required(2.6, 2.5, Outcome.INCONCLUSIVE, reason=Reason.TOO_NOISY),
            "too noisy to judge, although it is at least the required 2.500 in 3 fresh pairs",
        ),
        (
            required(2.6, 2.5, Outcome.INCONCLUSIVE, reason=Reason.TOO_FEW),
            "too few pairs to decide in 3 fresh pairs",
        ),
        (
            required(1.99, 2.5, Outcome.INCONCLUSIVE, reason=Reason.NOT_PROVED),
            "not proved that each side ran its own code in 3 fresh pairs",
        ),
    ],
    ids=["noise", "too noisy", "too few", "not proved"],
)
def test_a_required_ratio_that_is_undecided_has_the_words_of_a_ratio(found: Measurement, text: str) -> None:
    assert why_of(found) == text


def test_a_discarded_pair_of_a_required_ratio_is_a_ratio() -> None:
    text = plain(message(required(1.99, 2.5, discarded_pairs=(pair(1.0, disturbance=BUSY),))))
    assert "\n  discarded   pair at 2.000: other processes" in text


def test_where_a_figure_is_to_blame_the_ratio_beside_it_is_not_worded_as_a_gain() -> None:
    worse = Verdict(figure=Figure("loss"), outcome=Outcome.REGRESSED, value=2.0, confirmed_from=1.0, change=1.0)
    text = plain(message(required(2.6, 2.5, Outcome.PASS, figures=[worse])))
    assert "\n  throughput  PASS: ratio 2.600, at least the required 2.500\n" in text


def test_the_table_has_the_required_ratio_beside_the_ratio() -> None:
    lines = interleaved_table([interleaved(), required(1.99, 2.5)])
    heading, *cells = (re.split("  +", str(line)) for line in lines)
    rows = [dict(zip(heading, row, strict=True)) for row in cells]
    assert [(row["b / a"], row["required"]) for row in rows] == [("0.900", "-"), ("1.990", "2.500")]


def test_the_table_has_each_sides_bound_beside_its_throughput() -> None:
    two_workloads = interleaved(Outcome.INVALID, workload=WITH_XLA)
    lines = interleaved_table([interleaved(a={"breakdown": INPUT_BOUND}), two_workloads])
    heading, *cells = (re.split("  +", str(line)) for line in lines)
    rows = [dict(zip(heading, row, strict=True)) for row in cells]
    assert [[row[name] for name in ("workload", "b", "a bound", "b / a", "95 % CI")] for row in rows] == [
        [WORKLOAD.id, "tensorflow 2.21.0", "input", "0.900", "0.890 to 0.910"],
        ["-", f"{WORKLOAD.id}-xla", "-", "-", "-"],
    ]


def test_the_table_shows_the_names_that_users_gave() -> None:
    found = interleaved(a={"name": "plain"}, workload=WITH_XLA, name="compiled")
    heading, row = (re.split("  +", str(line)) for line in interleaved_table([found]))
    assert [row[heading.index(side)] for side in "ab"] == ["plain", "compiled"]


def test_the_history_shows_the_latest_comparison_of_two_sides() -> None:
    other = interleaved(topology="1x4", ratio=0.95, time="monday")
    found = [interleaved(time="monday"), other, interleaved(ratio=0.8, time="tuesday")]
    heading, *rows = map(str, latest_interleaved(found))
    assert (heading.split()[0], heading.split()[-3:]) == ("outcome", ["machine", "test", "when"])
    assert [(row.split()[-1], "0.800" in row) for row in rows] == [("tuesday", True), ("monday", False)]


def test_the_history_shows_two_tests_that_compare_the_same_sides() -> None:
    _, *rows = map(str, latest_interleaved([interleaved(test="a.py::one"), interleaved(test="a.py::two")]))
    assert [test in row for test, row in zip(("a.py::one", "a.py::two"), rows, strict=True)] == [True, True]
