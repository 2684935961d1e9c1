"""Before baselines are recorded the machine is looked at: a busy one is refused, or the rows will say so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_tfperf.bench.disturbance_guard import LOOK_SECONDS, Load, look_before_recording, watch_idly
from pytest_tfperf.core.disturbance import DisturbanceLimits
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.reports.invalid import accepted_load, refused_load

QUIET = Telemetry(seconds=1.0, usable_cores=2, other_cpu_fraction_mean=0.1, idle_fraction_mean=0.9)
BUSY = Telemetry(
    seconds=1.0,
    usable_cores=2,
    other_cpu_fraction_mean=0.61,
    idle_fraction_mean=0.0,
    other_processes={"make (pid 4711)": 0.6},
)
FACT = "other processes used 61 % of 2 cores, the busiest was make (pid 4711)"


def shown(*seconds: Telemetry | None) -> Callable[[], Telemetry | None]:
    rest = iter(seconds)
    return lambda: next(rest)


def test_a_busy_machine_is_refused_with_the_limit_and_the_option() -> None:
    limits = DisturbanceLimits()
    refused = look_before_recording(limits, shown(BUSY, BUSY, BUSY)).refused
    assert refused is not None
    assert str(refused_load(refused, limits)) == (
        f"--update-baselines: {FACT}, and tfperf_busy=0.25 does not accept it. Nothing was measured. Free the machine "
        "of other work; or record all the same with a higher limit, as in -o tfperf_busy=1: the new rows then say so"
    )


@pytest.mark.parametrize("seconds", [(QUIET,), (BUSY, QUIET), (BUSY, BUSY, QUIET), (None,)])
def test_a_machine_that_is_quiet_for_a_second_is_taken(seconds: tuple[Telemetry | None, ...]) -> None:
    assert look_before_recording(DisturbanceLimits(), shown(*seconds)) == Load()


def test_a_load_that_the_user_accepts_is_remarked() -> None:
    accepted = look_before_recording(Settings(values={"busy": 1.0}).disturbance_limits, shown(BUSY)).accepted
    assert accepted is not None
    assert (
        accepted_load(accepted, Settings(values={"busy": 1.0}).disturbance_limits)
        == f"{FACT}, and tfperf_busy=1 accepts it: the new rows will say so"
    )


def test_the_real_machine_can_be_looked_at() -> None:
    seen = watch_idly()
    assert seen is not None
    assert seen.seconds >= LOOK_SECONDS / 2
