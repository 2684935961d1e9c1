"""Rows that two branches recorded: of two the newer is kept, and what one side alone changed is never lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.features.baselines.merging import merge
from tests.helpers.measurements import baseline

NAMES = [Key(name, "1x1") for name in ("a-program", "b-program", "c-program")]
KEY = NAMES[0]


def row(value: float = 1000.0, date: str = "2026-01-01", key: Key = KEY, **more: object) -> Baseline:
    return baseline(value, key=key, date=date, **more)


def merged(before: Baseline | None, ours: Baseline | None, theirs: Baseline | None) -> Baseline | None:
    rows, _ = merge(*({} if one is None else {KEY: one} for one in (before, ours, theirs)))
    return rows.get(KEY)


OLD = row()
OURS = row(1100.0, "2026-02-01")
THEIRS = row(1200.0, "2026-02-02")


@pytest.mark.parametrize(
    ("before", "ours", "theirs", "kept"),
    [
        (OLD, OURS, THEIRS, THEIRS),
        (OLD, THEIRS, OURS, THEIRS),
        (None, OURS, THEIRS, THEIRS),
        (OLD, OURS, replace(THEIRS, date=OURS.date), OURS),
        (OLD, replace(OURS, date=""), THEIRS, THEIRS),
        (OLD, OLD, None, None),
        (OLD, None, THEIRS, THEIRS),
        (THEIRS, OLD, THEIRS, OLD),
    ],
    ids=[
        *("theirs is newer", "ours is newer", "both added", "the same day", "a row without a date is older"),
        *("deleted", "deleted and recorded", "an older row that one side alone went back to"),
    ],
)
def test_a_row_is_merged(
    before: Baseline | None, ours: Baseline | None, theirs: Baseline | None, kept: Baseline | None
) -> None:
    assert merged(before, ours, theirs) == kept


def test_a_bound_that_one_side_wrote_stays_with_the_other_sides_newer_recording() -> None:
    assert merged(OLD, replace(OLD, lower=-0.1), THEIRS) == replace(THEIRS, lower=-0.1)


def test_of_one_day_the_row_that_was_recorded_is_kept_and_not_the_one_whose_bound_was_written() -> None:
    today = replace(OLD, value=1300.0)
    assert merged(OLD, replace(OLD, lower=-0.1), today) == replace(today, lower=-0.1)


@pytest.mark.parametrize(
    ("ours", "theirs", "side", "dropped"),
    [
        (OURS, THEIRS, "theirs", OURS),
        (replace(OLD, date="2026-02-03"), replace(OLD, date="2026-02-02"), "ours", replace(OLD, date="2026-02-02")),
        (OURS, None, "ours", None),
        (replace(OLD, lower=-0.1), replace(OLD, lower=-0.2), "ours", replace(OLD, lower=-0.2)),
    ],
    ids=["two recordings", "recordings that differ in the date", "a deleted row", "two bounds"],
)
def test_what_is_dropped_of_a_row_that_both_sides_changed_is_known(
    ours: Baseline, theirs: Baseline | None, side: str, dropped: Baseline | None
) -> None:
    _, (twice,) = merge({KEY: OLD}, {KEY: ours}, {} if theirs is None else {KEY: theirs})
    assert (twice.side, twice.dropped) == (side, dropped)


some_rows = st.fixed_dictionaries(
    {},
    optional={
        key: st.builds(
            row,
            st.sampled_from([1000.0, 1100.0, 1200.0]),
            st.sampled_from(["2026-01-01", "2026-01-02"]),
            st.just(key),
            lower=st.sampled_from([None, -0.05]),
        )
        for key in NAMES
    },
)
Rows = dict[Key, Baseline]


@given(some_rows, some_rows)
def test_what_one_side_alone_changed_is_as_that_side_has_it(base: Rows, changed: Rows) -> None:
    assert merge(base, changed, base) == merge(base, base, changed) == merge(base, changed, changed) == (changed, [])


@given(some_rows, some_rows, some_rows)
def test_a_row_is_gone_only_where_a_side_deleted_it_and_the_other_left_it(base: Rows, ours: Rows, theirs: Rows) -> None:
    rows, _ = merge(base, ours, theirs)
    for key in {*ours, *theirs} - set(rows):
        assert [ours.get(key), theirs.get(key)].count(None) == 1
        assert base[key] in (ours.get(key), theirs.get(key))


@given(some_rows, some_rows, some_rows)
def test_a_recording_that_is_dropped_is_named(base: Rows, ours: Rows, theirs: Rows) -> None:
    rows, twice = merge(base, ours, theirs)
    named = [one.dropped for one in twice]
    for side in (ours, theirs):
        for key, one in side.items():
            is_kept = key in rows and replace(rows[key], lower=None) == replace(one, lower=None)
            is_old = key in base and replace(base[key], lower=None) == replace(one, lower=None)
            assert is_kept or is_old or one in named
