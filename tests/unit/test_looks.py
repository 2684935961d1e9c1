"""When the canaries are looked at."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from pytest_tfperf.bench import looks as module
from pytest_tfperf.bench.looks import LOOKS_THAT_DECIDE, Looks
from pytest_tfperf.core.canary import Canaries

ONE, TWO = (Canaries(matrix_product_gflops=rate, memory_copy_gigabytes=1.0) for rate in (1.0, 2.0))


def looks(*seen: Canaries) -> Looks:
    left: Iterator[Canaries] = iter(seen)
    return Looks(lambda: next(left, None))


def test_without_a_reason_nobody_looks() -> None:
    assert looks(ONE).seen == []


def test_a_look_shortly_after_another_is_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_AFTER_SECONDS", math.inf)  # a machine that stalls can make a moment long
    made = looks(ONE, TWO)
    made.lately()
    made.lately()
    assert made.seen == [ONE]


def test_looks_that_are_missing_are_taken() -> None:
    made = looks(ONE, *[TWO] * LOOKS_THAT_DECIDE)
    made.lately()
    made.until_they_decide()
    assert made.seen == [ONE, *[TWO] * (LOOKS_THAT_DECIDE - 1)]


def test_looks_that_were_had_already_are_not_taken_again() -> None:
    made = looks(*[ONE] * LOOKS_THAT_DECIDE, TWO)
    made.until_they_decide()
    made.until_they_decide()
    assert made.seen == [ONE] * LOOKS_THAT_DECIDE


def test_a_machine_that_can_not_tell_gives_what_it_has() -> None:
    made = looks(ONE)
    made.until_they_decide()
    assert (made.seen, made.decide) == ([ONE], True)


def test_a_machine_that_could_not_tell_once_is_not_asked_again() -> None:
    asked: list[None] = []
    made = Looks(lambda: asked.append(None))
    for _ in range(3):
        made.until_they_decide()
        made.lately()
    assert len(asked) == 1
