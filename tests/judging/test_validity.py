"""What makes a result INVALID."""

from __future__ import annotations

import math

import pytest

from pytest_tfperf.core.verdict import Outcome, Reason
from pytest_tfperf.judging.validity import ALL_DISTURBED, invalid, unusable
from tests.helpers.measurements import throughput


def test_what_was_disturbed_each_time_is_invalid() -> None:
    assert (ALL_DISTURBED.outcome, ALL_DISTURBED.reason) == (Outcome.INVALID, Reason.DISTURBED)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_invalid(loss: float) -> None:
    found = invalid(throughput(1000.0, loss=loss))
    assert found is not None
    assert (found.outcome, found.reason) == (Outcome.INVALID, Reason.DIVERGED)


@pytest.mark.parametrize("loss", [2.3, None])
def test_any_other_throughput_is_judged(loss: float | None) -> None:
    assert invalid(throughput(1000.0, loss=loss)) is None


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([1.0, None], Reason.NOT_MEASURED),
        ([math.nan, None], Reason.NOT_MEASURED),
        ([1.0, math.nan], Reason.NOT_FINITE),
        ([1.0, -math.inf], Reason.NOT_FINITE),
        ([1.0, 2.0], None),
    ],
)
def test_a_figure_that_a_run_lacks_or_that_is_no_number_is_unusable(
    values: list[float | None], reason: Reason | None
) -> None:
    assert unusable(values) is reason
