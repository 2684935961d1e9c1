"""An acknowledgement covers the loss that was acknowledged, and what noise may make of it."""

from __future__ import annotations

import math
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.acknowledgement import RECOVERED_FROM, WORSE_FROM, Standing
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


@given(loss=losses, noise=losses, today=losses, more=losses, sign=st.sampled_from([-1, 1]))
def test_a_change_beyond_what_both_intervals_explain_is_another_loss(
    loss: float, noise: float, today: float, more: float, sign: int
) -> None:
    one, apart = acknowledged(sign * loss, sign * (loss + noise)), loss + WORSE_FROM * (noise + today) + more
    assert not one.covers((sign * (apart - today), sign * (apart + today)))


@given(noise=losses, sign=st.sampled_from([-1, 1]))
def test_the_noise_of_both_sessions_counts_once(noise: float, sign: int) -> None:
    """Two intervals that touch are further apart than noise explains: it is no sum, but a root of squares."""
    one = acknowledged(sign * 0.08, sign * (0.08 + noise))
    further, inside = ((sign * (0.08 + (by - 1) * noise), sign * (0.08 + (by + 1) * noise)) for by in (1.9, 1.1))
    assert (one.covers(further), one.covers(inside)) == (False, True)


def test_a_further_loss_is_found_before_the_intervals_are_apart() -> None:
    """8 % are known to within 2.2 %, and measured as well today: the intervals are apart from 12.4 % on."""
    one = acknowledged(-0.08, -0.102)
    assert one.covers((-0.135, -0.091))
    assert not one.covers((-0.143, -0.099))


def test_a_count_that_never_varies_is_worse_by_one_more() -> None:
    one = acknowledged(2.0, 2.0, figure="compilations")
    assert (one.covers((2.0, 2.0)), one.covers((3.0, 3.0)), one.is_better((1.0, 1.0))) == (True, False, True)


def test_an_unknown_interval_tells_nothing() -> None:
    one = acknowledged()
    assert (one.covers((-math.inf, math.inf)), one.is_better((-math.inf, math.inf))) == (True, False)


@given(loss=losses, noise=losses, by=st.floats(0.1, 3.0).filter(lambda by: abs(by - RECOVERED_FROM) > 1e-6))
def test_a_recovery_needs_more_than_a_further_loss(loss: float, noise: float, by: float) -> None:
    one, shift = acknowledged(-loss, -(loss + noise)), by * math.hypot(noise, noise)
    better, worse = ((-loss + way * shift - noise, -loss + way * shift + noise) for way in (1, -1))
    assert one.is_better(better) <= (not one.covers(worse))
    assert one.is_better(better) == (by > RECOVERED_FROM)


@given(loss=losses, noise=losses, low=st.floats(-0.5, 0.5), width=losses)
def test_what_is_worse_or_recovered_seems_changed(loss: float, noise: float, low: float, width: float) -> None:
    """So it is never called so by the first few runs alone."""
    one, interval = acknowledged(-loss, -(loss + noise)), (low, low + width)
    is_other_direction = low >= 0
    if one.is_better(interval) or not (one.covers(interval) or is_other_direction):
        assert one.seems_changed(interval)


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
