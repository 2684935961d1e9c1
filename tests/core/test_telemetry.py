"""How polls become a run's telemetry, and runs a measurement's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry, Throttle, merged


def host(seconds: float = 1.0, **facts: object) -> Telemetry:
    return Telemetry(seconds=seconds, **facts)


def on_gpu(seconds: float = 1.0, **facts: object) -> Telemetry:
    return host(seconds, gpus=(GpuTelemetry(uuid="GPU-1", **facts),))


fractions = st.none() | st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)
shares = st.none() | st.dictionaries(st.sampled_from(Throttle).map(str), st.just(1.0))
telemetries = st.builds(
    Telemetry,
    seconds=st.integers(1, 10_000).map(lambda milliseconds: milliseconds / 1000),
    other_cpu_fraction_mean=fractions,
    load_average_mean=st.none() | st.integers(0, 1000).map(float),
    cpu_mhz_median=st.none() | st.integers(0, 6000).map(float),
    memory_available_bytes_min=st.none() | st.integers(0, 2**44),
    other_processes=st.none() | st.just({"make (pid 7)": 0.5}),
    gpus=st.lists(
        st.builds(
            GpuTelemetry,
            uuid=st.sampled_from(["GPU-1", "GPU-2"]),
            temperature_celsius_max=st.none() | st.integers(0, 120),
            power_watts_mean=st.none() | st.integers(0, 1000).map(float),
            throttled_fractions=shares,
        ),
        max_size=2,
        unique_by=lambda gpu: gpu.uuid,
    ).map(tuple),
)


def test_nothing_known_is_nothing() -> None:
    assert (merged([]), merged([None])) == (None, None)


def test_the_end_of_a_name_says_how_several_become_one() -> None:
    mhz, free, busy = (3000, 2900, 1200), (7, 5, 6), (0.4, 0.1, 0.1)
    polls = [
        host(1.0 + (i == 2), cpu_mhz_median=mhz[i], memory_available_bytes_min=free[i], other_cpu_fraction_mean=busy[i])
        for i in range(3)
    ]
    found = merged(polls)
    assert found == host(4.0, cpu_mhz_median=2900, memory_available_bytes_min=5, other_cpu_fraction_mean=0.175)


def test_what_one_poll_does_not_know_comes_from_the_others() -> None:
    found = merged([on_gpu(power_watts_mean=300.0, temperature_celsius_max=80), on_gpu(), None])
    assert found == on_gpu(2.0, power_watts_mean=300.0, temperature_celsius_max=80)


def test_shares_are_of_all_the_time() -> None:
    capped, free = on_gpu(throttled_fractions={"power_cap": 1.0}), on_gpu(3.0, throttled_fractions={})
    assert merged([capped, free]).gpus[0].throttled_fractions == {"power_cap": 0.25}


def test_of_many_processes_the_busiest_are_kept() -> None:
    polls = [host(other_processes={f"cc1 (pid {pid})": pid / 100}) for pid in range(1, 50)]
    kept = merged(polls).other_processes
    assert (len(kept), next(iter(kept))) == (10, "cc1 (pid 49)")


@given(st.lists(telemetries, min_size=1, max_size=6))
def test_merging_one_changes_nothing(several: list[Telemetry]) -> None:
    once = merged(several)
    assert merged([once, None]) == once
