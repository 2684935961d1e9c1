"""When the canaries are looked at."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from pytest_tfperf import looks as module
from pytest_tfperf.canary import Canaries
from pytest_tfperf.looks import Looks

ONE, TWO, THREE = (Canaries(matrix_product_gflops=rate, memory_copy_gigabytes=1.0) for rate in (1.0, 2.0, 3.0))


def looks(*seen: Canaries) -> Looks:
    left: Iterator[Canaries] = iter(seen)
    return Looks(lambda: next(left, None))


def test_without_a_reason_nobody_looks() -> None:
    assert looks(ONE).tonight() == []


def test_a_look_shortly_after_another_is_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_AFTER_SECONDS", math.inf)  # a machine that stalls can make a moment long
    made = looks(ONE, TWO)
    made.lately()
    made.lately()
    assert made.tonight() == [ONE]


def test_looks_that_are_missing_are_taken() -> None:
    made = looks(ONE, TWO, THREE)
    made.lately()
    assert made.tonight(at_least=2) == [ONE, TWO]


def test_looks_that_were_had_already_are_not_taken_again() -> None:
    made = looks(ONE, TWO, THREE)
    made.tonight(at_least=2)
    assert made.tonight(at_least=2) == [ONE, TWO]


def test_a_machine_that_can_not_tell_gives_what_it_has() -> None:
    assert looks(ONE).tonight(at_least=3) == [ONE]


def test_a_machine_that_could_not_tell_once_is_not_asked_again() -> None:
    asked: list[None] = []
    made = Looks(lambda: asked.append(None))
    for _ in range(3):
        made.tonight(at_least=20)
        made.lately()
    assert len(asked) == 1
