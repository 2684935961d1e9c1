"""The renderer of all tables, and the table of measurements."""

from __future__ import annotations

import math
import re
from textwrap import dedent
from typing import Any

import pytest
from measurements import WORKLOAD, baseline, measurement, throughput, verdict

from pytest_tfperf.core.breakdown import Bound, Breakdown
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.step_profile import Input
from pytest_tfperf.core.throughput import RunValue
from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.reports.measurement_table import counts, measurement_table
from pytest_tfperf.reports.table import table


def judged(kind: Outcome, change: float, **more: Any) -> Measurement:
    return measurement(throughput(1000.0 * (1 + change)), verdict=verdict(kind, change, **more))


BARE: dict[str, Any] = {"baseline": None, "change": None, "threshold": None, "min_detectable_slowdown": None}
UNKNOWN = measurement(throughput(7.25, uncertainty=0.01), verdict=verdict(Outcome.NO_BASELINE, **BARE), topology="1x1")


def test_columns_are_aligned_under_their_heading() -> None:
    assert table([{"name": "a", "size": "1"}, {"name": None, "size": "1,000"}], right={"size"}) == [
        "name   size",
        "a         1",
        "-     1,000",
    ]


def test_a_column_without_a_value_in_any_row_is_left_out() -> None:
    assert table([{"name": None, "size": "1"}, {"name": "", "size": "20"}]) == ["size", "1", "20"]


def test_without_rows_there_is_no_table() -> None:
    assert table([]) == []


def test_measurements_stand_under_their_heading() -> None:
    faster = measurement(
        throughput(1234567.0, uncertainty=1000.0),
        workload=WORKLOAD.with_(model="trivial", batch_size=4096),
        verdict=verdict(Outcome.IMPROVED, 98764.36, baseline=baseline(12.5), threshold=0.061),
    )
    slower = judged(Outcome.REGRESSED, -0.13, confirmed_change=-0.12)
    expected = dedent("""\
        workload                         topology   images/s  +/-    baseline        change  confirmed     fails at  detectable  outcome
        resnet50-b64-replicated-device   1x8           996.0  1.50      1,000        -0.4 %          -          5 %       8.7 %  PASS
        trivial-b4096-replicated-device  1x8       1,234,567  1,000     12.50  +9876436.0 %          -  6.1 % (5 %)       8.7 %  IMPROVED
        resnet50-b64-replicated-device   1x1            7.25  0.01          -             -          -            -           -  NO_BASELINE
        resnet50-b64-replicated-device   1x8           870.0  1.50      1,000       -13.0 %    -12.0 %          5 %       8.7 %  REGRESSED""")  # noqa: E501
    assert "\n".join(measurement_table([judged(Outcome.PASS, -0.004), faster, UNKNOWN, slower])) == expected


def row(found: Measurement) -> dict[str, str]:
    """A measurement's row, by the columns' headings; beside one that knows its uncertainty."""
    heading, line, _ = measurement_table([found, UNKNOWN])
    return dict(zip(re.split("  +", heading), re.split("  +", line), strict=True))


@pytest.mark.parametrize(
    ("found", "column", "cell"),
    [
        (judged(Outcome.PASS, 0.0, tolerance=Tolerance(), threshold=0.0204), "fails at", "2 %"),
        (measurement(throughput(500.0, runs=(RunValue(math.log(500.0), 0.1, 2),))), "+/-", "-"),
        (judged(Outcome.INVALID, 0.0), "images/s", "-"),
        (judged(Outcome.PASS, 0.0, is_floor=True), "outcome", "PASS (floor)"),
        (measurement(document=baseline(1612.0)), "document", "1,612"),
        (measurement(document=baseline(1612.0, machine="dgx1-p100")), "document", "1,612 (dgx1-p100)"),
        (measurement(file="monday/a.log"), "file", "monday/a.log"),
        (
            measurement(breakdown=Breakdown(input=Input.FETCHED, bound=Bound.COMPUTE, products_fraction=0.869)),
            "bound",
            "compute 87 %",
        ),
    ],
    ids=["tolerance", "few windows", "invalid", "floor", "document", "other machine's", "file", "bound"],
)
def test_a_cell(found: Measurement, column: str, cell: str) -> None:
    assert row(found)[column] == cell


def test_outcomes_are_counted_in_the_order_they_came() -> None:
    assert counts(["REGRESSED", "PASS", "REGRESSED"]) == "2 REGRESSED, 1 PASS"
