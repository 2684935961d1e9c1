"""What a night's tests have in common, and who made it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measurements import baseline

from pytest_tfperf.core.canary import Moved
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.judging.common_drift import (
    NIGHTS_DIFFER,
    NO_SHIFT,
    Cause,
    Level,
    Night,
    Shift,
    level_of,
    nights_differ,
    prefix_drop,
    shift_of,
)


def moved(product: float, copy: float, error: float = 0.001) -> dict[str, Moved]:
    return {"matrix product": Moved(math.log1p(product), error), "memory copy": Moved(math.log1p(copy), error)}


STILL = moved(0.0, 0.0)


def shift(change: float, canaries: dict[str, Moved]) -> Shift:
    return shift_of([math.log1p(change)] * 8, canaries)


def test_fewer_than_eight_tests_have_nothing_in_common() -> None:
    assert shift_of([-0.1] * 7, {}) is NO_SHIFT


def test_the_shift_is_the_median_over_tests() -> None:
    assert shift_of([-0.02] * 5 + [0.3] * 4, {}).common == -0.02


@given(st.lists(st.floats(-0.029, 0.029), min_size=8, max_size=20))
def test_a_small_shift_is_the_nights_and_credited(drops: list[float]) -> None:
    found = shift_of(drops, moved(-0.5, -0.5))
    assert (found.cause, found.credited) == (Cause.NIGHT, found.common)


@pytest.mark.parametrize("change", [-0.05, -0.4, 0.05, 0.4])
def test_a_large_shift_that_the_canaries_share_is_the_machines(change: float) -> None:
    found = shift(change, moved(change, change))
    assert (found.cause, found.credited) == (Cause.MACHINE, found.common)


@pytest.mark.parametrize("change", [-0.05, -0.4, 0.05, 0.4])
@pytest.mark.parametrize("canaries", [STILL, moved(0.01, -0.01)])
def test_a_large_shift_that_the_canaries_do_not_share_is_the_softwares(
    change: float, canaries: dict[str, Moved]
) -> None:
    assert shift(change, canaries).cause is Cause.SOFTWARE


def test_a_shift_the_other_way_than_the_canaries_is_the_softwares() -> None:
    assert shift(-0.1, moved(0.2, 0.2)).cause is Cause.SOFTWARE


def test_one_restless_canary_does_not_acquit_the_software() -> None:
    assert shift(-0.1, moved(0.0, -0.08)).cause is Cause.SOFTWARE


@pytest.mark.parametrize("canaries", [moved(-0.1, -0.1, 0.2), moved(0.0, 0.0, 0.2)])
def test_restless_canaries_neither_accuse_nor_acquit(canaries: dict[str, Moved]) -> None:
    assert shift(-0.1, canaries).cause is Cause.UNKNOWN


@pytest.mark.parametrize("change", [-0.05, 0.05])
def test_without_canaries_nobody_knows(change: float) -> None:
    assert shift(change, {}).cause is Cause.UNKNOWN


@pytest.mark.parametrize("canaries", [{}, STILL])
def test_what_is_not_known_to_be_the_machines_is_not_credited(canaries: dict[str, Moved]) -> None:
    assert shift(-0.05, canaries).credited == 0.0


@pytest.mark.parametrize(("change", "unfit"), [(-0.2, True), (-0.1, False), (0.5, False)])
def test_a_machine_that_lost_much_itself_is_unfit(change: float, unfit: bool) -> None:
    assert shift(change, moved(change, change)).unfit is unfit


def test_much_slower_software_makes_no_machine_unfit() -> None:
    assert not shift(-0.4, STILL).unfit


# The level that good nights make more exact


def nights(*drops: float, good: bool = True) -> list[Night]:
    return [Night((drop,), good=good) for drop in drops]


LAST = nights(-0.5, -0.5, -0.5)
"""The last three don't count."""


def test_a_baseline_without_nights_is_its_own_level() -> None:
    assert level_of(5, LAST) == Level(0.0, 5)


def test_good_nights_weigh_as_many_runs_as_they_had() -> None:
    assert level_of(5, [*nights(0.012, 0.024), Night((0.03, 0.03, 0.03), good=True), *LAST]) == Level(
        pytest.approx(0.0126), 10, nights=4
    )


def test_nights_that_did_not_pass_teach_nothing() -> None:
    assert level_of(5, [*nights(-0.05, good=False), *LAST]) == Level(0.0, 5)


def test_the_level_is_frozen_after_ten_good_nights() -> None:
    ten = nights(*[0.01] * 10)
    assert level_of(5, [*ten, *nights(-0.04, -0.04), *LAST]) == level_of(5, [*ten, *LAST])


def test_a_single_figure_of_a_document_learns_nothing() -> None:
    assert level_of(1, [*nights(0.01, 0.01), *LAST]) == Level(0.0, 1)


@given(st.lists(st.floats(-0.2, 0.2), min_size=1, max_size=20))
def test_the_level_lies_between_the_baseline_and_the_nights(drops: list[float]) -> None:
    assert min(*drops, 0.0) <= level_of(5, [*nights(*drops), *LAST]).offset <= max(*drops, 0.0)


def test_a_night_against_a_level_is_measured_from_it() -> None:
    assert Night((-0.03, -0.01)).against(Level(-0.01, 15)).drops == pytest.approx((-0.02, 0.0))


def test_only_a_runs_first_windows_count_for_the_shift() -> None:
    windows = (Window(1, 0.1),) * 20 + (Window(1, 1.0),) * 30
    assert prefix_drop(Run(windows=windows, images_per_step=1), baseline(10.0)) == pytest.approx(0.0)


def test_what_first_windows_always_give_more_is_no_shift() -> None:
    windows = (Window(1, 0.1),) * 20 + (Window(1, 0.105),) * 30
    row = baseline(1 / 0.105, prefix=math.log(1.05))
    assert prefix_drop(Run(windows=windows, images_per_step=1), row) == pytest.approx(0.0)


def test_a_burst_that_spoils_a_few_of_the_first_windows_is_no_shift() -> None:
    windows = (Window(1, 0.1),) * 17 + (Window(1, 0.3),) * 3
    assert prefix_drop(Run(windows=windows, images_per_step=1), baseline(10.0)) == pytest.approx(0.0)


# What a test's nights differ by


@pytest.mark.parametrize("few", [[], nights(-0.5, -0.5, -0.5, -0.5)])
def test_without_earlier_nights_what_is_usual_is_assumed(few: list[Night]) -> None:
    assert nights_differ(few, 0.0) == NIGHTS_DIFFER


def test_many_nights_tell_themselves_what_they_differ_by() -> None:
    many = nights(*[0.004, -0.004] * 200)
    assert nights_differ([*many, *LAST], 0.0) == pytest.approx(0.004, rel=0.05)


def test_what_runs_differ_by_is_not_laid_to_the_nights() -> None:
    many = nights(*[0.004, -0.004] * 200)
    assert nights_differ([*many, *LAST], 0.005) == pytest.approx(0.001, abs=0.0005)
