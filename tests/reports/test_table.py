"""The renderer of all tables, and the table of measurements."""

from __future__ import annotations

import math
import re
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.profile import Bound, Breakdown, Input
from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.core.workload import VariableUpdate
from pytest_tfperf.reports.measurement_table import counts, measurement_table
from pytest_tfperf.reports.table import Columns, shortened, table
from tests.helpers.measurements import WORKLOAD, baseline, measurement, throughput, verdict


def judged(kind: Outcome, change: float, **more: Any) -> Measurement:
    return measurement(throughput(1000.0 * (1 + change)), verdict=verdict(kind, change, **more))


def lines_of_table(measurements: list[Measurement], width: int | None = None) -> list[str]:
    return [*map(str, measurement_table(measurements, width))]


BARE: dict[str, Any] = {"baseline": None, "change": None, "threshold": None, "min_detectable_slowdown": None}
UNKNOWN = measurement(throughput(7.25), verdict=verdict(Outcome.NO_BASELINE, **BARE), topology="1x1")


def test_measurements_stand_under_their_heading() -> None:
    faster = measurement(
        throughput(1234567.0),
        workload=WORKLOAD.with_(model="trivial", batch_size=4096),
        verdict=verdict(Outcome.IMPROVED, 98764.36, baseline=baseline(12.5), threshold=0.061),
    )
    slower = judged(Outcome.REGRESSED, -0.13, confirmed_change=-0.12)
    expected = dedent("""\
        outcome      workload                         topology   images/s  95 % CI                 baseline        change  confirmed   fails from  detectable
        REGRESSED    resnet50-b64-replicated-device   1x8           870.0  865.7 to 874.4             1,000       -13.0 %    -12.0 %          5 %       8.7 %
        NO_BASELINE  resnet50-b64-replicated-device   1x1            7.25  7.21 to 7.29                   -             -          -            -           -
        IMPROVED     trivial-b4096-replicated-device  1x8       1,234,567  1,228,394 to 1,240,740     12.50  +9876436.0 %          -  6.1 % (5 %)       8.7 %
        PASS         resnet50-b64-replicated-device   1x8           996.0  991.0 to 1,001             1,000        -0.4 %          -          5 %       8.7 %""")  # noqa: E501
    assert "\n".join(map(str, measurement_table([judged(Outcome.PASS, -0.004), faster, UNKNOWN, slower]))) == expected


def row(found: Measurement) -> dict[str, str]:
    """A measurement's row, by the columns' headings; beside one that knows its interval."""
    heading, *lines = map(str, measurement_table([found, UNKNOWN]))
    (line,) = (line for line in lines if not line.startswith("NO_BASELINE"))
    return dict(zip(re.split("  +", heading), re.split("  +", line), strict=True))


@pytest.mark.parametrize(
    ("found", "column", "cell"),
    [
        (judged(Outcome.PASS, 0.0, tolerance=Tolerance(), threshold=0.0204), "fails from", "2 %"),
        (measurement(throughput(18.04, low=8.9, high=36.5)), "95 % CI", "8.90 to 36.50"),
        (measurement(throughput(500.0, low=0.0, high=math.inf)), "95 % CI", "-"),
        (judged(Outcome.INVALID, 0.0), "images/s", "-"),
        (judged(Outcome.PASS, 0.0, is_floor=True), "outcome", "PASS (floor)"),
        (
            judged(Outcome.REGRESSED, -0.2, baseline=baseline(provenance=Provenance.PROVISIONAL)),
            "outcome",
            "REGRESSED (provisional)",
        ),
        (measurement(document=baseline(1612.0)), "document", "1,612"),
        (measurement(document=baseline(1612.0, machine="dgx1-p100")), "document", "1,612 (dgx1-p100)"),
        (measurement(file="monday/a.log"), "file", "monday/a.log"),
        (
            measurement(breakdown=Breakdown(input=Input.FETCHED, bound=Bound.COMPUTE, products_fraction=0.869)),
            "bound",
            "compute: 87 % of the matmul rate",
        ),
    ],
    ids=[
        "tolerance",
        "interval",
        "unknown interval",
        "invalid",
        "floor",
        "earlier sessions",
        "document",
        "other machine's",
        "file",
        "bound",
    ],
)
def test_a_cell(found: Measurement, column: str, cell: str) -> None:
    assert row(found)[column] == cell


def test_outcomes_that_need_action_are_counted_first() -> None:
    slower, passed = judged(Outcome.REGRESSED, -0.1), judged(Outcome.PASS, 0.0)
    found = [measurement(), passed, slower, judged(Outcome.PASS, 0.0, is_floor=True), slower]
    assert counts(found) == "2 REGRESSED, 1 PASS, 1 PASS (floor), 1 measured"


def outcomes(lines: list[str]) -> list[str]:
    return [line.split()[0] for line in lines[1:]]


def test_rows_that_need_action_come_first() -> None:
    kinds = [*reversed(Outcome), Outcome.REGRESSED]
    expected = [
        "REGRESSED",
        "REGRESSED",
        "INVALID",
        "INCONCLUSIVE",
        "TOO_NOISY",
        "NO_BASELINE",
        "IMPROVED",
        "PASS",
        "measured",
    ]
    assert outcomes(lines_of_table([measurement(), *(judged(kind, 0.0) for kind in kinds)])) == expected


def test_rows_of_one_outcome_keep_the_order_of_the_tests() -> None:
    lines = lines_of_table([judged(Outcome.PASS, change) for change in (0.02, -0.01, 0.01)])
    assert [line.split()[3] for line in lines[1:]] == ["1,020", "990.0", "1,010"]


# In narrow terminals

WIDE = Columns(right={"images/s"}, optional=("change", "document"), ids=("workload",))
ROW = {"outcome": "PASS", "workload": "resnet50-b64", "images/s": "1,612", "document": "1,500 (dgx1)", "change": "+1 %"}


@pytest.mark.parametrize(
    ("width", "heading"),
    [
        (53, ["outcome", "workload", "images/s", "document", "change"]),
        (52, ["outcome", "workload", "images/s", "change"]),
        (38, ["outcome", "workload", "images/s"]),
        (30, ["outcome", "workload", "images/s"]),
        (26, ["outcome", "workload"]),
    ],
)
def test_the_least_important_columns_are_left_out_first(width: int, heading: list[str]) -> None:
    assert table([ROW], WIDE, width)[0].split() == heading


def test_what_is_missing_is_said_under_the_table() -> None:
    assert table([ROW], WIDE, 30)[-1] == (
        "(left out: document, change, workload in full; all fit into 53 columns, as with COLUMNS=53)"
    )


def test_a_narrow_column_takes_the_room_that_a_wide_one_can_not() -> None:
    columns = Columns(optional=("wide", "narrow"))
    assert table([{"id": "a", "wide": "w" * 30, "narrow": "1"}], columns, 20)[0].split() == ["id", "narrow"]


@pytest.mark.parametrize(
    ("texts", "cut"),
    [
        (["short", "resnet50-b64-replicated-device"], ["short", "resne..device"]),
        (["nets-b1-replicated-device-xla", "nets-b1-replicated-device-abc"], ["nets-b..ce-xla", "nets-b..ce-abc"]),
        (["a1-replicated-device", "a2-replicated-device"], ["a1-re..device", "a2-re..device"]),
        (["a-first-one-" + "x" * 9, "a-first-two-" + "x" * 9], ["a-first-o..xxx", "a-first-t..xxx"]),
        (["a-one-" + "x" * 20, "a-two-" + "x" * 20], ["a-one..xxxxxx", "a-two..xxxxxx"]),
    ],
    ids=["middle", "differing ends", "differing beginnings", "further back", "before the middle"],
)
def test_ids_are_cut_in_the_middle_where_they_still_differ(texts: list[str], cut: list[str]) -> None:
    assert shortened(texts, max(map(len, cut))) == cut


OUTCOMES = st.sampled_from([None, *Outcome])
MODELS = st.sampled_from(["resnet50", "nets:small", "acme.vision.models:a_rather_long_name_for_a_network"])


@st.composite
def any_measurement(draw: st.DrawFn) -> Measurement:
    rate = draw(st.floats(0.01, 1e7))
    kind = draw(OUTCOMES)
    return measurement(
        throughput(rate),
        workload=WORKLOAD.with_(model=draw(MODELS), variable_update=draw(st.sampled_from(VariableUpdate))),
        verdict=kind and verdict(kind, draw(st.floats(-0.99, 5.0)), confirmed_change=draw(st.none() | st.just(-0.12))),
        document=draw(st.none() | st.just(baseline(1612.0, machine="dgx1-p100"))),
        name=draw(st.sampled_from(["", "small-cnn", "the photographs of the last quarter, at full size"])),
    )


some_measurements = st.lists(any_measurement(), min_size=1, max_size=6)


@given(some_measurements, st.integers(60, 300))
def test_no_line_of_a_table_is_longer_than_its_width(found: list[Measurement], width: int) -> None:
    lines = lines_of_table(found, width)
    assert max(len(line) for line in lines if not line.startswith("(left out: ")) <= width


@given(some_measurements, st.integers(60, 300))
def test_every_number_that_is_shown_is_whole(found: list[Measurement], width: int) -> None:
    def numbers(lines: list[str]) -> set[str]:
        cells = {cell for line in lines[1:] for cell in re.split("  +", line)}
        return {cell for cell in cells if re.fullmatch(r"[-+\d.,]+( %)?", cell)}

    narrow = [line for line in lines_of_table(found, width) if not line.startswith("(left out: ")]
    assert numbers(narrow) <= numbers(lines_of_table(found))


@given(some_measurements, st.integers(60, 300))
def test_each_measurement_keeps_its_row_and_outcome(found: list[Measurement], width: int) -> None:
    narrow = [line for line in lines_of_table(found, width) if not line.startswith("(left out: ")]
    assert outcomes(narrow) == outcomes(lines_of_table(found))
