"""An acknowledgement covers the loss that was acknowledged, and what noise may make of it."""

from __future__ import annotations

import math
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.acknowledgement import Standing
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError
from tests.helpers.measurements import acknowledged, verdict

END = date(2027, 1, 15)
A_DAY = timedelta(days=1)
losses = st.floats(0.001, 0.5)


def standing(outcome: Outcome, interval: tuple[float, float] | None, day: date = END) -> Standing | None:
    return verdict(outcome, interval=interval, acknowledged=acknowledged()).standing(day)


@given(loss=losses, noise=losses, sign=st.sampled_from([-1, 1]))
def test_the_same_interval_is_covered_and_has_not_recovered(loss: float, noise: float, sign: int) -> None:
    one = acknowledged(sign * loss, sign * (loss + noise))
    interval = (sign * (loss - noise), sign * (loss + noise))
    assert (one.covers(interval), one.is_better(interval)) == (True, False)


@given(loss=losses, noise=losses, more=losses, sign=st.sampled_from([-1, 1]))
def test_an_interval_wholly_beyond_the_worst_is_not_covered(loss: float, noise: float, more: float, sign: int) -> None:
    one = acknowledged(sign * loss, sign * (loss + noise))
    assert not one.covers((sign * (loss + noise + more), sign * (loss + noise + 2 * more)))


def test_a_change_in_the_other_direction_is_not_covered() -> None:
    assert not acknowledged(0.02, 0.03).covers((-0.05, -0.04))


@pytest.mark.parametrize("worst", [-0.12, math.nan, -math.inf])
def test_a_worse_end_that_is_no_such_end_is_refused(worst: float) -> None:
    with pytest.raises(TfperfError, match="no loss and its worse end"):
        acknowledged(worst=worst)


def test_it_holds_on_its_last_day_and_not_on_the_next() -> None:
    days = [standing(Outcome.REGRESSED, (-0.15, -0.11), day) for day in (END, END + A_DAY)]
    assert days == [Standing.HOLDS, Standing.ENDED]


def test_a_loss_beyond_noise_is_worse_even_before_the_end() -> None:
    assert standing(Outcome.REGRESSED, (-0.25, -0.21)) is Standing.WORSE


def test_a_loss_of_unknown_size_is_worse() -> None:
    assert standing(Outcome.REGRESSED, None) is Standing.WORSE


def test_a_pass_has_recovered_only_beyond_doubt() -> None:
    assert standing(Outcome.PASS, (-0.14, -0.01)) is Standing.HOLDS
    assert standing(Outcome.PASS, (-0.04, 0.01)) is Standing.RECOVERED


def test_a_verdict_without_acknowledgement_has_no_standing() -> None:
    assert verdict(Outcome.REGRESSED).standing(END) is None
