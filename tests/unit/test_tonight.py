"""One machine's night: what its tests have in common, and what the canaries say of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
from measurements import attempt, baseline

from pytest_tfperf.bench.tonight import Tonight
from pytest_tfperf.core.canary import Canaries
from pytest_tfperf.judging.common_drift import LEAST_TESTS, Cause

THEN = Canaries(matrix_product_gflops=100.0, memory_copy_gigabytes=10.0)
HALF = Canaries(matrix_product_gflops=50.0, memory_copy_gigabytes=5.0)


def note(night: Tonight, change: float, canaries: Canaries = THEN, then: str = "", now: str = "") -> Tonight:
    """The first runs of eight tests, each changed so; `then` and `now` are the versions of NumPy, "" where unknown."""
    for i in range(LEAST_TESTS):
        row = baseline(1000.0, canaries=canaries, environment=f"numpy={then}" if then else "")
        environment = {"numpy": now} if now else {}
        night.note(f"a.py::test[{i}]", attempt([0.064 / (1 + change)] * 5, environment=environment), row)
    night.look_until_known()
    return night


def seeing(*looks: Canaries) -> Callable[[], Canaries | None]:
    left: Iterator[Canaries] = iter(looks)
    return lambda: next(left, None)


def test_first_runs_tell_what_the_tests_have_in_common() -> None:
    assert note(Tonight(lambda: None), -0.02).shift.common == pytest.approx(math.log(0.98))


def test_a_test_that_is_noted_again_counts_once() -> None:
    assert note(note(Tonight(lambda: None), 0.0), -0.02).tests == LEAST_TESTS


def test_of_a_test_that_is_noted_again_the_later_run_counts() -> None:
    found = note(note(Tonight(lambda: None), 0.0), -0.02).shift
    assert found.common == pytest.approx(math.log(0.98))


# The canaries


@pytest.mark.parametrize(("then", "now"), [("2.1", "2.1"), ("", "2.1"), ("2.1", "")])
def test_canaries_of_the_same_or_an_unknown_library_tell_of_the_machine(then: str, now: str) -> None:
    assert note(Tonight(lambda: HALF), -0.4, then=then, now=now).shift.cause is Cause.MACHINE


def test_canaries_of_another_library_tell_nothing() -> None:
    found = note(Tonight(lambda: HALF), -0.4, then="1.26", now="2.1").shift
    assert (found.cause, found.canaries) == (Cause.UNKNOWN, {})


def test_rows_of_another_library_do_not_count_beside_those_of_the_same() -> None:
    night = Tonight(lambda: HALF)
    for i in range(LEAST_TESTS):
        same = i < 3
        row = baseline(1000.0, canaries=HALF if same else THEN, environment=f"numpy={'2.1' if same else '1.26'}")
        night.note(f"a.py::test[{i}]", attempt([0.128] * 5, environment={"numpy": "2.1"}), row)
    night.look_until_known()
    assert night.shift.cause is Cause.SOFTWARE


def test_where_nobody_looked_no_canaries_are_known() -> None:
    assert Tonight(lambda: HALF).canaries is None


def test_the_canaries_of_a_night_are_the_median_of_its_looks() -> None:
    looks = [Canaries(matrix_product_gflops=rate, memory_copy_gigabytes=10.0) for rate in (90.0, 50.0, 60.0)]
    night = note(Tonight(seeing(*looks)), -0.4)
    assert night.canaries == Canaries(matrix_product_gflops=60.0, memory_copy_gigabytes=10.0)


def test_who_asks_for_the_shift_makes_nobody_look() -> None:
    night = Tonight(lambda: pytest.fail("a look"))
    for i in range(LEAST_TESTS):
        night.note(f"a.py::test[{i}]", attempt([0.128] * 5), baseline(1000.0, canaries=THEN))
    assert (night.shift.cause, night.wants_looks) == (Cause.UNKNOWN, True)


def test_an_ordinary_night_needs_no_looks() -> None:
    assert not note(Tonight(lambda: pytest.fail("a look")), -0.02).wants_looks
