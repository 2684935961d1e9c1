"""GPUs get warm before the first timed run, in bounded time, and once."""

from __future__ import annotations

import math

import pytest

from pytest_tfperf.bench.disturbance_guard import MOST_SECONDS, STEADY_SECONDS, GpuWarmUp, Observation
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry


class Gpus:
    """GPUs that get warm while they work, a second for each call."""

    def __init__(self, *, ends_at: float = 70.0, is_known: bool = True, rises: float = 0.0) -> None:
        self.seconds = 0.0
        self.ends_at, self.is_known, self.rises = ends_at, is_known, rises
        self.phases: list[str] = []

    def temperatures(self) -> list[int] | None:
        if self.seconds == 0:  # nothing was sampled yet
            return None
        celsius = self.ends_at - 30 * math.exp(-self.seconds / 10) + self.rises * self.seconds
        return [round(celsius), round(celsius) - 2] if self.is_known else []

    def warm_up(self) -> GpuWarmUp:
        return GpuWarmUp(clock=lambda: self.seconds)

    def work_until_warm(self, warm_up: GpuWarmUp, *uuids: str) -> None:
        is_warm = warm_up.of(uuids, self.temperatures, self.phases.append)
        while not is_warm():
            self.seconds += 1.0


def test_gpus_work_until_they_are_no_warmer_than_ten_seconds_before() -> None:
    gpus = Gpus()
    warm_up = gpus.warm_up()
    gpus.work_until_warm(warm_up, "GPU-a", "GPU-b")
    (done,) = warm_up.done
    assert (done.before, done.is_steady) == (43, True)
    assert 67 <= done.after <= 70
    assert STEADY_SECONDS < done.seconds < MOST_SECONDS
    assert gpus.phases[0] == "GPU warm-up, 43 C"


def test_gpus_that_never_stop_getting_warmer_do_not_hold_the_session_up() -> None:
    gpus = Gpus(rises=0.5)
    warm_up = gpus.warm_up()
    gpus.work_until_warm(warm_up, "GPU-a")
    assert (warm_up.done[0].seconds, warm_up.done[0].is_steady) == (MOST_SECONDS, False)


def test_without_a_temperature_nothing_is_warmed_up() -> None:
    gpus = Gpus(is_known=False)
    warm_up = gpus.warm_up()
    gpus.work_until_warm(warm_up, "GPU-a")
    assert (gpus.seconds, warm_up.done) == (1.0, [])


@pytest.mark.parametrize(("uuids", "times"), [(["GPU-a"], 1), (["GPU-a", "GPU-b"], 2), ([], 1)])
def test_each_gpu_is_warmed_up_once(uuids: list[str], times: int) -> None:
    gpus = Gpus()
    warm_up = gpus.warm_up()
    gpus.work_until_warm(warm_up, "GPU-a")
    gpus.work_until_warm(warm_up, *uuids)
    assert len(warm_up.done) == times


@pytest.mark.parametrize(
    ("gpus", "expected"), [([61, 58], [61, 58]), ([61, None], []), ([], [])], ids=["known", "one unknown", "no GPUs"]
)
def test_the_temperatures_of_a_run_are_those_of_its_last_sample(gpus: list[int | None], expected: list[int]) -> None:
    read = tuple(GpuTelemetry(uuid="GPU-a", temperature_celsius_max=one) for one in gpus)
    sample = Telemetry(seconds=1.0, usable_cores=2, gpus=read)
    assert Observation(latest=lambda: sample).temperatures() == expected


def test_before_the_first_sample_no_temperature_is_known() -> None:
    assert Observation().temperatures() is None


# Programs


class Programs:
    """Runs of a program that take 10 s to start and some seconds of work, on a GPU that gets warm and cools down."""

    def __init__(self, *, work: int = 4, celsius: float = 35.0, most_seconds: float = MOST_SECONDS) -> None:
        self.work, self.celsius = work, celsius
        self.warm_up = GpuWarmUp(most_seconds=most_seconds)

    def run(self, *uuids: str) -> bool:
        """Whether this run was too cold to count."""
        self.celsius -= (self.celsius - 30.0) * (1 - math.exp(-10 / 60))
        read = []
        for _ in range(self.work):
            self.celsius += (70.0 - self.celsius) * (1 - math.exp(-1 / 10))
            read.append(round(self.celsius))
        return self.warm_up.was_cold(uuids or ("GPU-a",), read, 10.0 + self.work)

    def cold_runs(self, *uuids: str) -> int:
        return next(number for number in range(100) if not self.run(*uuids))


def test_a_programs_runs_are_thrown_away_until_one_ends_no_warmer_than_the_last() -> None:
    programs = Programs()
    assert 2 <= programs.cold_runs() <= 6
    (done,) = programs.warm_up.done
    assert (done.before, done.is_steady) == (38, True)
    before = programs.celsius
    assert not programs.run()
    assert programs.celsius == pytest.approx(before, abs=2)


def test_a_programs_runs_are_thrown_away_for_no_longer_than_a_worker_is_warmed_up() -> None:
    programs = Programs(work=20, most_seconds=50.0)
    assert (programs.cold_runs(), programs.warm_up.done[0].is_steady) == (1, False)


def test_a_run_of_many_minutes_counts_even_if_it_began_cold() -> None:
    programs = Programs(work=600)
    assert (programs.cold_runs(), programs.warm_up.done) == (0, [])


def test_gpus_that_are_warm_cost_a_program_one_run_at_most() -> None:
    programs = Programs()
    programs.cold_runs()
    another = Programs(celsius=programs.celsius)
    assert another.cold_runs() <= 1


def test_gpus_that_a_worker_or_another_program_has_warmed_up_are_warm_for_a_program() -> None:
    programs = Programs()
    programs.cold_runs()
    assert not programs.run()
    assert programs.run("GPU-b")


@pytest.mark.parametrize("celsius", [[], [40], [40, 41]], ids=["not known", "one poll", "no warmer"])
def test_a_program_whose_gpu_gets_no_warmer_counts_at_once(celsius: list[int]) -> None:
    assert not GpuWarmUp().was_cold(["GPU-a"], celsius, 5.0)


def test_without_a_warm_up_each_run_of_a_program_counts() -> None:
    assert not GpuWarmUp(most_seconds=0).was_cold(["GPU-a"], [30, 60], 5.0)
