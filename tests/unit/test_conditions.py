"""What is kept of an attempt's samples."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps, loads

from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.plain_json import build
from pytest_tfperf.core.samples import GpuProcess, GpuSample, Sample, Throttle
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry, kept_of, merged


def sample(seconds: float = 0.25, **facts) -> Sample:
    return Sample(monotonic_seconds=1.0, seconds=seconds, usable_cores=2, **facts)


def on_gpu(**facts) -> Sample:
    return sample(gpus=(GpuSample(uuid="GPU-1", **facts),))


def gpu_of(*samples: Sample) -> GpuTelemetry:
    found = kept_of(samples)
    assert found is not None
    (gpu,) = found.gpus
    return gpu


fractions = st.none() | st.floats(0, 1)
gpus = st.lists(
    st.builds(
        GpuSample,
        uuid=st.sampled_from(["GPU-1", "GPU-2"]),
        temperature_celsius=st.none() | st.integers(0, 120),
        sm_clock_mhz=st.none() | st.integers(0, 3000),
        memory_clock_mhz=st.none() | st.integers(0, 3000),
        power_watts=st.none() | st.floats(0, 1000),
        utilisation_fraction=fractions,
        memory_used_bytes=st.none() | st.integers(0, 2**40),
        throttles=st.none() | st.lists(st.sampled_from(Throttle), unique=True).map(tuple),
    ),
    max_size=2,
    unique_by=lambda gpu: gpu.uuid,
).map(tuple)
samples = st.lists(
    st.builds(
        Sample,
        monotonic_seconds=st.just(1.0),
        seconds=st.floats(0.001, 10),
        usable_cores=st.just(2),
        other_cpu_fraction=fractions,
        steal_fraction=fractions,
        load_average=st.none() | st.floats(0, 1000),
        cpu_mhz=st.none() | st.integers(0, 6000),
        memory_available_bytes=st.none() | st.integers(0, 2**44),
        gpus=gpus,
    ),
    min_size=1,
    max_size=6,
)


def test_nothing_is_kept_of_nothing() -> None:
    assert (kept_of([]), merged([None])) == (None, None)


def test_the_ends_of_names_say_what_was_done() -> None:
    found = kept_of([sample(cpu_mhz=clock) for clock in (3000, 2900, 1200)])
    assert found is not None
    assert (found.cpu_mhz_median, found.cpu_mhz_min) == (2900, 1200)


def test_a_mean_weighs_samples_by_their_length() -> None:
    found = kept_of([sample(1.0, other_cpu_fraction=0.4), sample(3.0, other_cpu_fraction=0.0)])
    assert found is not None
    assert found.other_cpu_fraction_mean == 0.1


def test_what_some_samples_did_not_tell_is_taken_from_the_others() -> None:
    gpu = gpu_of(on_gpu(power_watts=300.0), on_gpu())
    assert (gpu.power_watts_mean, gpu.temperature_celsius_max) == (300.0, None)


def test_throttle_reasons_come_with_the_fraction_of_samples() -> None:
    capped, free = on_gpu(throttles=(Throttle.POWER_CAP,)), on_gpu(throttles=())
    assert gpu_of(capped, free, free, free).throttled_fractions == {"power_cap": 0.25}


def test_other_processes_on_a_gpu_are_named_once() -> None:
    other = on_gpu(other_processes=(GpuProcess(pid=4711, name="python"),))
    assert gpu_of(other, other).other_processes == ("python (pid 4711)",)


def test_attempts_are_merged_as_one() -> None:
    found = merged(kept_of([sample(cpu_mhz=clock, load_average=load)]) for clock, load in [(3000, 1.0), (1000, 3.0)])
    assert found is not None
    assert (found.cpu_mhz_min, found.load_average_mean, found.seconds) == (1000, 2.0, 0.5)


def test_a_reason_that_one_attempt_never_saw_counts_for_none_of_it() -> None:
    found = merged(kept_of([on_gpu(throttles=reasons)]) for reasons in [(Throttle.POWER_CAP,), ()])
    assert found is not None
    assert found.gpus[0].throttled_fractions == {"power_cap": 0.5}


@given(samples)
def test_merging_one_attempt_changes_nothing(taken: list[Sample]) -> None:
    assert merged([kept_of(taken), None]) == kept_of(taken)


@given(samples)
def test_what_is_kept_is_read_back_from_json(taken: list[Sample]) -> None:
    found = kept_of(taken)
    assert found is not None
    assert build(Telemetry, loads(dumps(asdict(found))), "") == found
