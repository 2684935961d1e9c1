"""Which operations grew since the baseline, and how a message names them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.profile import MOST_KEPT, MOST_NAMED, Growth, OpTime, Profile, grown, largest
from pytest_tfperf.lines import Line
from pytest_tfperf.reports.message import profile_lines

OPS = st.lists(
    st.builds(
        OpTime,
        name=st.sampled_from([f"block{i}/conv" for i in range(80)]),
        type=st.sampled_from(["Conv2D", "FusedConv2D"]),
        seconds=st.floats(0, 1),
        count=st.just(1.0),
    ),
    max_size=80,
).map(largest)


def op(name: str, milliseconds: float, type: str = "Conv2D") -> OpTime:
    return OpTime(name=name, type=type, seconds=milliseconds / 1e3, count=1.0)


def names(found: tuple[Growth, ...]) -> list[str]:
    return [one.name for one in found]


# What is kept


@given(OPS)
def test_the_largest_come_first_and_the_rest_is_left_out(ops: tuple[OpTime, ...]) -> None:
    assert len(ops) <= MOST_KEPT
    assert list(ops) == sorted(ops, key=lambda one: -one.seconds)


# What grew


@given(OPS, OPS)
def test_the_largest_growth_comes_first_and_ten_at_most(now: tuple[OpTime, ...], before: tuple[OpTime, ...]) -> None:
    found = grown(now, before)
    growths = [one.growth_seconds for one in found]
    assert len(growths) <= MOST_NAMED
    assert growths == sorted(growths, reverse=True)
    assert all(growth > 0 for growth in growths)


@given(OPS)
def test_nothing_grew_where_nothing_changed(ops: tuple[OpTime, ...]) -> None:
    assert grown(ops, ops) == ()


def test_an_added_layer_is_named_before_what_only_varies() -> None:
    before = [op("block1/conv", 2.0), op("block2/conv", 1.0)]
    now = [op("block1/conv", 2.05), op("added/conv", 1.5), op("block2/conv", 0.98)]
    assert names(grown(now, before)) == ["added/conv"]


def test_an_operation_is_the_same_one_if_another_kernel_computes_it() -> None:
    assert grown([op("block/conv", 1.0, "FusedConv2D")], [op("block/conv", 1.0)]) == ()


def test_kernels_of_one_name_are_counted_together() -> None:
    now = [op("block/conv", 1.0, "FusedConv2D"), op("block/conv", 0.5)]
    assert grown(now, [op("block/conv", 1.5)]) == ()
    (found,) = grown(now, [op("block/conv", 1.0)])
    assert (found.before_count, found.count) == (1.0, 2.0)


def test_what_was_too_small_to_be_kept_took_less_than_all_that_was() -> None:
    before = [op(f"block{i}/conv", 1.0) for i in range(MOST_KEPT)]
    (found,) = grown([op("another/conv", 3.0)], before)
    assert (found.before_seconds, found.is_at_most) == (1e-3, True)


# In words


def line(growth: Growth) -> str:
    lines = profile_lines(Profile(folder="traces/a", logdir="traces", grown=(growth,)))
    return next(line.text for line in lines if line.label == "grew")


@pytest.mark.parametrize(
    ("growth", "said"),
    [
        ({"before_seconds": 1.2e-3}, "Conv2D block3/conv 1.2 -> 3.4 ms a step"),
        ({"before_seconds": 0.0}, "Conv2D block3/conv 0 -> 3.4 ms a step"),
        ({"before_seconds": 1.2e-3, "is_at_most": True}, "Conv2D block3/conv under 1.2 -> 3.4 ms a step"),
        ({"before_seconds": 1e-6, "is_at_most": True}, "Conv2D block3/conv 0 -> 3.4 ms a step"),
        ({"before_seconds": 1.2e-3, "name": "Conv2D"}, "Conv2D 1.2 -> 3.4 ms a step"),
        (
            {"before_seconds": 1.2e-3, "before_count": 1.0, "count": 14.0},
            "Conv2D block3/conv 1.2 -> 3.4 ms a step, calls 1 -> 14",
        ),
        ({"before_seconds": 1.2e-3, "before_count": 2.0, "count": 2.0}, "Conv2D block3/conv 1.2 -> 3.4 ms a step"),
        (
            {"before_seconds": 1.2e-3, "is_at_most": True, "count": 2.0},
            "Conv2D block3/conv under 1.2 -> 3.4 ms a step",
        ),
        ({"before_seconds": 0.0341, "seconds": 0.123}, "Conv2D block3/conv 34 -> 123 ms a step"),
    ],
)
def test_a_growth_is_said_in_milliseconds_of_a_step(growth: dict[str, float], said: str) -> None:
    given = {"name": "block3/conv", "type": "Conv2D", "seconds": 3.4e-3} | growth
    assert line(Growth(**given)) == said  # type: ignore[arg-type]


def test_a_trace_is_shown_with_the_command_that_opens_it() -> None:
    profile = Profile(folder="traces/test_a/today", logdir="traces")
    assert list(profile_lines(profile)) == [
        Line("traces/test_a/today    (open with tensorboard --logdir traces)", "profile")
    ]


def test_without_a_trace_the_reason_is_said() -> None:
    assert list(profile_lines(Profile(fault="the disk is full"))) == [Line("none: the disk is full", "profile")]
