"""What counts as a disturbance, and the fact that names it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.bench.disturbance_guard import DisturbanceGuard, power_facts
from pytest_tfperf.core.disturbance import DisturbanceKind, DisturbanceLimits
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry, Throttle, merged
from pytest_tfperf.judging.validity import disturbance_in
from pytest_tfperf.reports.invalid import disturbance_fact

DEFAULTS = DisturbanceLimits()
ALL_ALLOWED = DisturbanceLimits(
    other_cpu_fraction=1,
    steal_fraction=1,
    swap_bytes_per_sec=math.inf,
    gpu_utilisation_fraction=1,
    gpu_samples_fraction=1,
)


def host(**facts: object) -> Telemetry:
    return Telemetry(seconds=10.0, usable_cores=2, **facts)


def gpu(**facts: object) -> GpuTelemetry:
    return GpuTelemetry(uuid="GPU-3b1c", **facts)


def throttled(*reasons: Throttle, fraction: float = 1.0, celsius: int | None = 87) -> Telemetry:
    held = dict.fromkeys(reasons, fraction)
    cool = GpuTelemetry(uuid="GPU-0000", throttled_fractions={})
    return host(gpus=(cool, gpu(throttled_fractions=held, temperature_celsius_max=celsius)))


def shared(use: float) -> Telemetry:
    return host(gpus=(gpu(other_processes={"jupyter (pid 12)": 0.0, "python (pid 4711)": use}),))


BUSY = host(
    other_cpu_fraction_mean=0.83, idle_fraction_mean=0.0, other_processes={"cc1 (pid 8)": 0.1, "make (pid 4711)": 0.6}
)
DISTURBED = [
    (BUSY, DisturbanceKind.OTHER_PROCESSES, "other processes used 83 % of 2 cores, the busiest was make (pid 4711)"),
    (
        host(steal_fraction_mean=0.31),
        DisturbanceKind.STEAL,
        "the hypervisor gave 31 % of 2 cores to other virtual machines (steal time)",
    ),
    (
        host(swap_bytes_per_sec_mean=12 * 2**20),
        DisturbanceKind.SWAPPING,
        "the machine swapped 12 MiB/s",
    ),
    (
        throttled(Throttle.HW_SLOWDOWN, Throttle.HW_THERMAL, celsius=None),
        DisturbanceKind.GPU_SLOWED_DOWN,
        "GPU-3b1c was slowed down because of heat",
    ),
    (
        throttled(Throttle.HW_POWER_BRAKE),
        DisturbanceKind.GPU_SLOWED_DOWN,
        "GPU-3b1c was slowed down by the power brake, which the power supply triggered (87 C)",
    ),
    (
        throttled(Throttle.HW_SLOWDOWN),
        DisturbanceKind.GPU_SLOWED_DOWN,
        "GPU-3b1c was slowed down by its hardware because of heat or power (87 C)",
    ),
    (
        shared(0.62),
        DisturbanceKind.GPU_SHARED,
        "python (pid 4711) also ran on GPU-3b1c and used up to 62 % of it",
    ),
]


@pytest.mark.parametrize(("telemetry", "kind", "fact"), DISTURBED)
def test_a_disturbance_has_a_kind_and_names_the_culprit(telemetry, kind, fact):
    found = disturbance_in(telemetry, DEFAULTS)
    assert (found.kind, disturbance_fact(found)) == (kind, fact)
    assert disturbance_in(telemetry, ALL_ALLOWED) is None


@pytest.mark.parametrize(
    "telemetry",
    [
        host(gpus=(gpu(),)),
        host(other_cpu_fraction_mean=0.25, idle_fraction_mean=0.0),
        host(other_cpu_fraction_mean=0.4, idle_fraction_mean=0.5),  # they take what is idle anyway
        host(swap_bytes_per_sec_mean=100_000),
        throttled(Throttle.POWER_CAP, Throttle.IDLE, Throttle.APPLICATION_CLOCKS, Throttle.SYNC_BOOST),
        throttled(Throttle.SW_THERMAL, fraction=0.25),  # a GPU at its target temperature flickers
        shared(0.05),  # an idle notebook
    ],
)
def test_what_is_below_the_limits_or_not_known_is_no_disturbance(telemetry):
    assert disturbance_in(telemetry, DEFAULTS) is None


@pytest.mark.parametrize(
    ("hot", "polls", "is_disturbed"),
    [
        (1, 3, False),
        (2, 3, True),
        (1, 4, False),
        (2, 4, True),
        (1, 1, True),
        (2, 8, False),
        (3, 8, True),
        (5, 20, False),
    ],
)
def test_heat_that_one_poll_shows_disturbs_no_run_of_several(hot: int, polls: int, is_disturbed: bool) -> None:
    each = [gpu(throttled_fractions={Throttle.SW_THERMAL: 1.0} if number < hot else {}) for number in range(polls)]
    run = merged([Telemetry(seconds=1.0, gpus=(now,)) for now in each])
    assert (disturbance_in(run, DEFAULTS) is not None) is is_disturbed


@pytest.mark.parametrize("seconds", [0.1, 1.0, 3.0, 100.0])
def test_a_limit_that_accepts_all_heat_accepts_it_in_each_run(seconds: float) -> None:
    always = gpu(throttled_fractions={Throttle.HW_THERMAL: 1.0})
    assert disturbance_in(Telemetry(seconds=seconds, gpus=(always,)), ALL_ALLOWED) is None


def test_idle_cores_excuse_nobody_where_the_limit_says_so():
    telemetry = host(other_cpu_fraction_mean=0.4, idle_fraction_mean=0.5)
    assert disturbance_in(telemetry, DisturbanceLimits(idle_fraction=1)) is not None


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1e9), st.floats(0, 1), st.lists(st.floats(0, 0.5), max_size=3))
def test_more_disturbance_is_never_judged_less(other, steal, swap, idle, more):
    def at(added: float) -> Telemetry:
        return host(
            other_cpu_fraction_mean=other + added,
            steal_fraction_mean=steal + added,
            swap_bytes_per_sec_mean=swap + added,
            idle_fraction_mean=max(0.0, idle - added),
        )

    assert bool(disturbance_in(at(sum(more)), DEFAULTS)) >= bool(disturbance_in(at(0), DEFAULTS))


# Power


@pytest.mark.parametrize(
    ("gpus", "facts"),
    [
        (
            [gpu(throttled_fractions={Throttle.POWER_CAP: 0.5}, power_limit_watts_max=250)],
            {"gpu_power_limit": "250W", "gpu_power_capped": "yes"},
        ),
        ([gpu(throttled_fractions={Throttle.POWER_CAP: 0.25})], {"gpu_power_capped": "no"}),
        (
            [
                GpuTelemetry(uuid="GPU-0000", throttled_fractions={}, power_limit_watts_max=300),
                gpu(throttled_fractions={Throttle.POWER_CAP: 1.0}, power_limit_watts_max=250),
            ],
            {"gpu_power_limit": "250W+300W", "gpu_power_capped": "yes"},
        ),
        ([gpu(neighbours_max=2)], {"mig_neighbours": "yes"}),
        ([gpu(neighbours_max=0)], {"mig_neighbours": "no"}),
        ([gpu()], {}),
        ([], {}),
    ],
)
def test_a_power_cap_and_neighbours_on_a_mig_gpu_are_recorded_as_far_as_the_driver_reports_it(gpus, facts):
    assert power_facts(host(gpus=tuple(gpus)), DEFAULTS) == facts


@pytest.mark.parametrize(("capped", "fact"), [(1, "no"), (2, "yes")])
def test_a_power_cap_that_one_poll_of_three_shows_is_not_recorded(capped: int, fact: str) -> None:
    each = [gpu(throttled_fractions={Throttle.POWER_CAP: 1.0} if number < capped else {}) for number in range(3)]
    run = merged([Telemetry(seconds=1.0, gpus=(now,)) for now in each])
    assert power_facts(run, DEFAULTS) == {"gpu_power_capped": fact}


# The guard


class PlayedSampler:
    """Gives this telemetry."""

    def __init__(self, telemetry: Telemetry | None, hung: bool = False) -> None:
        self.telemetry, self.hung = telemetry, hung
        self.polls = () if telemetry is None else (telemetry,)

    def start(self) -> None: ...

    def stop(self) -> Telemetry | None:
        return self.telemetry


def watched(telemetry: Telemetry | None, *uuids: str, hung: bool = False):
    guard = DisturbanceGuard(DEFAULTS, lambda *_: PlayedSampler(telemetry, hung))
    with guard.watching(uuids) as observation:
        pass
    return observation


def test_the_guard_gives_disturbance_environment_and_telemetry():
    capped = host(other_cpu_fraction_mean=0.9, gpus=(gpu(power_limit_watts_max=250),))
    found = watched(capped)
    assert found.disturbance.kind is DisturbanceKind.OTHER_PROCESSES
    assert (found.environment, found.telemetry) == ({"gpu_power_limit": "250W"}, capped)


def test_the_guard_gives_each_poll():
    busy = host(other_cpu_fraction_mean=0.9)
    assert watched(busy).polls == (busy,)


def test_a_run_too_short_to_sample_is_not_disturbed():
    assert watched(None).disturbance is None


@pytest.mark.parametrize(("uuids", "who"), [(["GPU-1"], "the GPU driver"), ([], "the kernel")])
def test_a_driver_that_does_not_answer_is_a_disturbance(uuids, who):
    found = watched(None, *uuids, hung=True).disturbance
    assert found.kind is DisturbanceKind.DRIVER_SILENT
    assert disturbance_fact(found).startswith(f"{who} stopped answering")


def test_what_was_sampled_before_the_driver_hung_is_reported_first():
    assert watched(BUSY, hung=True).disturbance.kind is DisturbanceKind.OTHER_PROCESSES


# Before a run


def before(*uses: float | None, others: dict[str, float] | None = None, uuids: tuple[str, ...] = ("GPU-1",)) -> Any:
    """What the guard finds in looks in which the GPU is in use by these fractions, and how many looks it took."""
    looks = iter(uses)

    def sampler(*_: object) -> PlayedSampler:
        return PlayedSampler(host(gpus=(gpu(utilisation_fraction_mean=next(looks), other_processes=others),)))

    guard = DisturbanceGuard(DEFAULTS, sampler, looks=[0.0] * 5)
    return guard.before(uuids), len(uses) - len(list(looks))


def test_a_gpu_in_use_before_a_run_is_shared_where_processes_can_not_be_seen():
    found, looks = before(0.9, 0.4, 0.02, 0.9, 0.5)
    assert (found.kind, looks) == (DisturbanceKind.GPU_SHARED, 5)
    assert disturbance_fact(found).startswith("other work used 50 % of GPU-3b1c before the run")


@pytest.mark.parametrize(
    ("uses", "looks"), [((0.0, 0.9), 1), ((None, 0.9), 1), ((0.9, 0.02, 0.0), 3), ((0.9, 0.0, 0.9, 0.0, 0.0), 5)]
)
def test_our_own_last_worker_is_not_taken_for_other_work_after_two_looks_at_an_idle_gpu(uses, looks):
    assert before(*uses) == (None, looks)


def test_utilisation_before_a_run_does_not_count_where_processes_are_named():
    assert before(0.9, others={"python (pid 4711)": 0.9}) == (None, 1)  # it is judged by its use during the run


def test_nothing_is_looked_for_where_no_gpu_is_used():
    assert before(0.9, uuids=()) == (None, 0)
