"""What counts as a disturbance, and what the sentence says."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps, loads

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.plain_json import build
from pytest_tfperf.core.samples import (
    GpuProcess,
    GpuSample,
    Limits,
    Sample,
    Throttle,
    disturbance,
    power_facts,
    remedy,
)

UUID = "GPU-3b1c7d20-aaaa-bbbb-cccc-0123456789ab"
OTHER = GpuProcess(pid=4711, name="python", utilisation_fraction=0.62)


def sample(at: float = 1.0, seconds: float = 0.25, cores: int = 2, **facts) -> Sample:
    return Sample(monotonic_seconds=at, seconds=seconds, usable_cores=cores, **facts)


def on_gpu(*gpus: GpuSample) -> list[Sample]:
    return [sample(at=0.25 * i, gpus=(gpu,)) for i, gpu in enumerate(gpus)]


def gpu(**facts) -> GpuSample:
    return GpuSample(uuid=UUID, **facts)


def throttled(*reasons: Throttle, celsius: int | None = 87) -> GpuSample:
    return gpu(throttles=reasons, temperature_celsius=celsius)


# The host


def test_nothing_sampled_is_no_disturbance():
    assert disturbance([]) == ""


def test_what_is_not_known_is_no_disturbance():
    assert disturbance([sample(gpus=(gpu(),))]) == ""


def test_other_processes_are_told_with_the_busiest():
    samples = [sample(other_cpu_fraction=0.83, idle_fraction=0.0, busiest_other="python (pid 4711)")]
    assert disturbance(samples) == "other processes used 83 % of 2 cores, above all python (pid 4711)"


def test_a_culprit_that_nobody_can_see_is_not_named():
    assert disturbance([sample(cores=1, other_cpu_fraction=0.5)]) == "other processes used 50 % of 1 core"


def test_the_culprit_is_who_was_busiest_for_longest():
    names = ["make (pid 1)", "python (pid 2)", "python (pid 2)"]
    samples = [sample(other_cpu_fraction=0.5, busiest_other=name) for name in names]
    assert disturbance(samples).endswith("python (pid 2)")


def test_others_at_the_limit_are_no_disturbance():
    assert disturbance([sample(other_cpu_fraction=0.25, idle_fraction=0.0)]) == ""


def test_others_that_take_what_is_idle_anyway_are_no_disturbance():
    assert disturbance([sample(cores=64, other_cpu_fraction=0.4, idle_fraction=0.5)]) == ""


def test_idle_cores_excuse_nobody_where_the_limit_says_so():
    lone = [sample(cores=64, other_cpu_fraction=0.4, idle_fraction=0.5)]
    assert disturbance(lone, Limits(idle_fraction=1)) == "other processes used 40 % of 64 cores"


def test_a_short_burst_is_averaged_over_the_samples():
    burst = [sample(other_cpu_fraction=1.0), *[sample(other_cpu_fraction=0.0)] * 9]
    assert disturbance(burst) == ""


def test_a_longer_sample_weighs_more():
    samples = [sample(seconds=2.0, other_cpu_fraction=0.4), sample(seconds=0.2, other_cpu_fraction=0.0)]
    assert disturbance(samples) == "other processes used 36 % of 2 cores"


def test_steal_names_the_hypervisor():
    text = "the hypervisor gave 31 % of 2 cores to other virtual machines (steal time)"
    assert disturbance([sample(steal_fraction=0.31)]) == text


def test_swapping_tells_its_rate_and_the_memory_left():
    samples = [sample(swap_bytes_per_sec=12 * 2**20, memory_available_bytes=300 * 2**20)]
    assert disturbance(samples) == "swapping 12 MiB/s, with 300 MiB of memory available"


def test_a_trickle_of_swap_is_no_disturbance():
    assert disturbance([sample(swap_bytes_per_sec=100_000)]) == ""


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1e9), st.floats(0, 1), st.lists(st.floats(0, 0.5), max_size=3))
def test_more_disturbance_is_never_judged_less(other, steal, swap, idle, more):
    calm = sample(other_cpu_fraction=other, steal_fraction=steal, swap_bytes_per_sec=swap, idle_fraction=idle)
    add = sum(more)
    worse = sample(
        other_cpu_fraction=other + add,
        steal_fraction=steal + add,
        swap_bytes_per_sec=swap + add,
        idle_fraction=max(0.0, idle - add),
    )
    assert bool(disturbance([worse])) >= bool(disturbance([calm]))


# What to do about it


def test_each_disturbance_has_a_remedy_that_names_its_own_option():
    facts = {
        "--tfperf-busy": sample(other_cpu_fraction=0.9, busiest_other="swapping slowed down"),
        "--tfperf-steal": sample(steal_fraction=0.9),
        "--tfperf-swap": sample(swap_bytes_per_sec=1e9),
        "--tfperf-gpu-throttled": sample(gpus=(throttled(Throttle.HW_POWER_BRAKE),)),
        "--tfperf-gpu-busy": sample(gpus=(gpu(other_processes=(OTHER,)),)),
    }
    named = {option: remedy(disturbance([fact])) for option, fact in facts.items()}
    assert [option for option, said in named.items() if option not in said.replace(" FRACTION", "").split()] == []


def test_what_nobody_knows_has_the_common_remedy():
    assert remedy("others used 90 %") == "Free the machine of other work"


# GPUs


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (Throttle.SW_THERMAL, "GPU-3b1c… slowed down for heat (87 C)"),
        (Throttle.HW_THERMAL, "GPU-3b1c… slowed down for heat (87 C)"),
        (Throttle.HW_POWER_BRAKE, "GPU-3b1c… slowed down by the HW power brake, which its power supply pulled (87 C)"),
        (Throttle.HW_SLOWDOWN, "GPU-3b1c… was slowed down by its hardware, for heat or power (87 C)"),
    ],
)
def test_a_slowed_down_gpu_says_why(reason, text):
    assert disturbance(on_gpu(throttled(reason))) == text


def test_heat_without_a_thermometer_is_still_heat():
    assert disturbance(on_gpu(throttled(Throttle.HW_THERMAL, celsius=None))) == "GPU-3b1c… slowed down for heat"


@pytest.mark.parametrize(
    "reason", [Throttle.POWER_CAP, Throttle.IDLE, Throttle.APPLICATION_CLOCKS, Throttle.SYNC_BOOST]
)
def test_a_power_cap_or_set_clocks_are_no_disturbance(reason):
    assert disturbance(on_gpu(throttled(reason))) == ""


def test_the_umbrella_reason_gives_way_to_the_exact_one():
    assert "for heat (" in disturbance(on_gpu(throttled(Throttle.HW_SLOWDOWN, Throttle.HW_THERMAL)))


def test_heat_that_flickers_is_no_disturbance():
    assert disturbance(on_gpu(throttled(Throttle.SW_THERMAL), *[throttled()] * 3)) == ""


def test_one_hot_gpu_of_many_is_found():
    cool = GpuSample(uuid="GPU-0000", throttles=())
    assert "GPU-3b1c…" in disturbance([sample(gpus=(cool, throttled(Throttle.HW_THERMAL)))])


def test_another_process_on_the_gpu_is_named_with_its_share():
    text = "python (pid 4711) ran on GPU-3b1c… too and used up to 62 % of it"
    assert disturbance(on_gpu(gpu(other_processes=(OTHER,)))) == text


def test_a_process_that_only_holds_memory_is_no_disturbance():
    idle = GpuProcess(pid=4711, name="jupyter", utilisation_fraction=0.0)
    assert disturbance(on_gpu(gpu(other_processes=(idle,)))) == ""


def test_a_process_whose_use_the_driver_does_not_tell_counts():
    unknown = GpuProcess(pid=4711, name="python")
    assert disturbance(on_gpu(gpu(other_processes=(unknown,)))) == "python (pid 4711) ran on GPU-3b1c… too"


def test_a_process_that_came_and_went_is_no_disturbance():
    assert disturbance(on_gpu(gpu(other_processes=(OTHER,)), *[gpu(other_processes=())] * 3)) == ""


def test_a_process_whose_use_is_not_told_is_accepted_where_any_is():
    unknown = GpuProcess(pid=4711, name="python")
    assert disturbance(on_gpu(gpu(other_processes=(unknown,))), Limits(gpu_utilisation_fraction=1)) == ""


def test_a_limit_of_all_samples_accepts_any_heat():
    assert disturbance(on_gpu(throttled(Throttle.HW_THERMAL)), Limits(gpu_samples_fraction=1)) == ""


# Power caps


def test_a_power_cap_is_recorded_with_its_watts():
    samples = on_gpu(gpu(throttles=(Throttle.POWER_CAP,), power_limit_watts=250))
    assert power_facts(samples) == {"gpu_power_limit": "250W", "gpu_power_capped": "yes"}


def test_a_power_cap_that_flickers_holds_nothing_back():
    samples = on_gpu(throttled(Throttle.POWER_CAP), *[throttled()] * 3)
    assert power_facts(samples) == {"gpu_power_capped": "no"}


def test_one_capped_gpu_of_many_is_found():
    free = GpuSample(uuid="GPU-0000", throttles=(), power_limit_watts=300)
    capped = gpu(throttles=(Throttle.POWER_CAP,), power_limit_watts=250)
    assert power_facts([sample(gpus=(free, capped))]) == {
        "gpu_power_limit": "250W+300W",
        "gpu_power_capped": "yes",
    }


@pytest.mark.parametrize("samples", [[], [sample()], [sample(gpus=(gpu(),))]])
def test_what_the_driver_does_not_tell_of_power_is_not_recorded(samples):
    assert power_facts(samples) == {}


# Samples


def test_a_sample_comes_back_from_json():
    whole = sample(
        other_cpu_fraction=0.5, gpus=(gpu(throttles=(Throttle.POWER_CAP,), other_processes=(OTHER,), power_watts=1.5),)
    )
    assert build(Sample, loads(dumps(asdict(whole))), "trial") == whole
