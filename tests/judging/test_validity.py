"""What makes a result INVALID."""

from __future__ import annotations

import math

import pytest

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.figure_verdict import FigureReason, FigureVerdict
from pytest_tfperf.core.verdict import Outcome, Reason
from pytest_tfperf.judging.validity import invalid, invalid_figure
from tests.helpers.measurements import throughput


def test_what_was_disturbed_each_time_is_invalid() -> None:
    assert (invalid(None).outcome, invalid(None).reason) == (Outcome.INVALID, Reason.DISTURBED)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_invalid(loss: float) -> None:
    found = invalid(throughput(1000.0, loss=loss))
    assert found is not None
    assert (found.outcome, found.reason) == (Outcome.INVALID, Reason.DIVERGED)


@pytest.mark.parametrize("loss", [2.3, None])
def test_any_other_throughput_is_judged(loss: float | None) -> None:
    assert invalid(throughput(1000.0, loss=loss)) is None


@pytest.mark.parametrize(
    ("values", "beside", "reason"),
    [
        ([1.0, None], [], FigureReason.NOT_MEASURED),
        ([1.0, math.nan], [], FigureReason.NOT_FINITE),
        ([1.0], [math.inf], FigureReason.NOT_FINITE),
        ([1.0, 2.0], [3.0], None),
    ],
)
def test_a_figure_that_a_run_lacks_or_that_is_no_number_is_invalid(
    values: list[float | None], beside: list[float], reason: FigureReason | None
) -> None:
    found = invalid_figure(FigureVerdict(figure=Figure("loss"), value=1.0), values, beside=beside)
    assert (found and (found.outcome, found.reason)) == (None if reason is None else (Outcome.INVALID, reason))
