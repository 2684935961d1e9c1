"""GPUs get warm before the first timed run, in bounded time, and once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from pytest_tfperf.bench.gpu_warm_up import MOST_SECONDS, STEADY_SECONDS, GpuWarmUp


class Gpus:
    """GPUs that get warm while they work, a second for each call."""

    def __init__(self, *, ends_at: float = 70.0, is_known: bool = True, rises: float = 0.0) -> None:
        self.seconds = 0.0
        self.ends_at, self.is_known, self.rises = ends_at, is_known, rises
        self.phases: list[str] = []

    def temperatures(self, uuids: Sequence[str]) -> list[int]:
        celsius = self.ends_at - 30 * math.exp(-self.seconds / 10) + self.rises * self.seconds
        return [round(celsius) for _ in uuids] if self.is_known else []

    def work(self) -> None:
        self.seconds += 1.0

    def warm_up(self) -> GpuWarmUp:
        return GpuWarmUp(self.temperatures, clock=lambda: self.seconds)


def test_gpus_work_until_they_are_no_warmer_than_ten_seconds_before() -> None:
    gpus = Gpus()
    warm_up = gpus.warm_up()
    warm_up.warm_up(["GPU-a", "GPU-b"], gpus.work, gpus.phases.append)
    (done,) = warm_up.done
    assert (done.before, done.is_steady) == (40, True)
    assert 67 <= done.after <= 70
    assert STEADY_SECONDS < done.seconds < MOST_SECONDS
    assert gpus.phases[0] == "GPU warm-up, 40 C"


def test_gpus_that_never_stop_getting_warmer_do_not_hold_the_session_up() -> None:
    gpus = Gpus(rises=0.5)
    warm_up = gpus.warm_up()
    warm_up.warm_up(["GPU-a"], gpus.work, gpus.phases.append)
    assert (warm_up.done[0].seconds, warm_up.done[0].is_steady) == (MOST_SECONDS, False)


def test_without_a_temperature_nothing_is_warmed_up() -> None:
    gpus = Gpus(is_known=False)
    warm_up = gpus.warm_up()
    warm_up.warm_up(["GPU-a"], gpus.work, gpus.phases.append)
    assert (gpus.seconds, warm_up.done) == (0.0, [])


@pytest.mark.parametrize(("uuids", "wants"), [(["GPU-a"], False), (["GPU-a", "GPU-b"], True), ([], False)])
def test_each_gpu_is_warmed_up_once(uuids: list[str], wants: bool) -> None:
    gpus = Gpus()
    warm_up = gpus.warm_up()
    warm_up.warm_up(["GPU-a"], gpus.work, gpus.phases.append)
    assert warm_up.wants(uuids) is wants
