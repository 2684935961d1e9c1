"""The accepted change: how it is written, and whose holds."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pytest_tfperf.core.baseline import Baseline, Provenance
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.errors import TfperfError
from tests.helpers.measurements import baseline


@pytest.mark.parametrize(
    ("written", "means"),
    [
        (0.05, Tolerance(-0.05, 0.05)),
        ((-0.05, None), Tolerance(-0.05, None)),
        (Tolerance(-0.1, 0.2), Tolerance(-0.1, 0.2)),
    ],
)
def test_one_fraction_is_both_bounds_and_a_pair_is_lower_and_upper(written: Any, means: Tolerance) -> None:
    assert Tolerance.of(written) == means


@pytest.mark.parametrize(
    "value", [0, 0.51, 0.95, 1, -0.05, 5, math.nan, math.inf, True, "0.05", None, (-0.05,), (-0.1, 0.1, 0.1)]
)
def test_what_is_no_tolerance_is_refused(value: Any) -> None:
    with pytest.raises(TfperfError, match="tolerance="):
        Tolerance.of(value)


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        *(((lower, 0.1), r"lower .* must be from -0.5 to below 0") for lower in (0.05, 0, -0.95, math.nan, -math.inf)),
        *(((-0.1, upper), r"upper .* must be above 0") for upper in (0.0, -0.1, 1.05, math.nan, math.inf)),
        (("-5%", None), r"lower '-5%' must be from -0.5 to below 0"),
        ((None, "5%"), r"upper '5%' must be above 0"),
        ((None, True), r"upper True must be above 0"),
    ],
)
def test_a_bound_that_is_none_is_refused(pair: Any, says: str) -> None:
    with pytest.raises(TfperfError, match=says):
        Tolerance.of(pair)


@pytest.mark.parametrize(
    ("row", "holds"),
    [
        (baseline(), Tolerance(-0.03, 0.04)),
        (baseline(lower=-0.1, upper=0.2), Tolerance(-0.1, 0.2)),
        (baseline(lower=-math.inf, upper=math.inf), Tolerance(None, None)),
        (baseline(provenance=Provenance.PUBLISHED), Tolerance(-0.05, 0.05)),
        (baseline(provenance=Provenance.PUBLISHED, lower=-0.1, upper=0.2), Tolerance(-0.1, 0.2)),
    ],
    ids=["none of its own", "its own", "unbounded", "published", "published with its own"],
)
def test_a_rows_own_bounds_come_first(row: Baseline, holds: Tolerance) -> None:
    assert Tolerance(-0.03, 0.04).within(row) == holds
