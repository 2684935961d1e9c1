"""Recordings on disk: written, read again, and refused where they are faulty."""

from __future__ import annotations

import json
import math
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measurements import WORKLOAD, attempt, baseline
from patience import running

from pytest_tfperf.core.run import Run, Trial, Window
from pytest_tfperf.core.step_profile import Input, StepProfile
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.judging.common_drift import Night
from pytest_tfperf.judging.noise import Noise
from pytest_tfperf.stores import trial_file
from pytest_tfperf.stores.recording import Recording


def recording(**more: Any) -> Recording:
    given: dict[str, Any] = {
        "test": "perf_tests/test_a.py::test_b[1]",
        "workload": WORKLOAD,
        "topology": "1x8",
        "machine": "box",
        "devices": "8x Tesla P100",
        "trial": Trial((attempt([0.064, 0.065]),)),
        "steps": 100,
        "warmup_steps": 10,
        "baseline": baseline(),
        "noise": Noise(0.01, 4.0, "this row's own runs"),
    }
    return Recording(**given | more)


WHOLE = trial_file.render(recording())

texts = st.text(max_size=20)
lines = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=20)
seconds = st.floats(1e-6, 1e6)
windows = st.builds(Window, st.integers(1, 10**6), seconds, st.none() | st.floats(-1e30, 1e30) | st.just(math.inf))
environments = st.dictionaries(texts, texts, max_size=3)
parts = st.builds(
    StepProfile,
    input=st.sampled_from(Input),
    pipeline_images_per_sec=st.none() | seconds,
    pipeline_core_seconds_per_image=st.none() | seconds,
    cores=st.none() | st.integers(1, 1000),
    forward_multiply_adds=st.none() | st.integers(0, 10**15),
    products_multiply_adds_per_sec=st.none() | st.floats(1, 1e18),
)
conditions = st.builds(
    Telemetry,
    seconds=seconds,
    load_average_mean=st.none() | seconds,
    cpu_mhz_min=st.none() | st.integers(0, 6000),
    gpus=st.lists(
        st.builds(
            GpuTelemetry,
            uuid=texts,
            power_watts_max=st.none() | seconds,
            throttled_fractions=st.dictionaries(texts, st.floats(0, 1), max_size=2),
            other_processes=st.lists(texts, max_size=2).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
)
attempts = st.builds(
    Run,
    windows=st.lists(windows, min_size=1, max_size=5).map(tuple),
    images_per_step=st.integers(1, 10**9),
    warmup=st.lists(windows, max_size=3).map(tuple),
    compile_seconds=st.none() | seconds,
    stated_images_per_sec=st.none() | seconds,
    environment=environments,
    unsettled=texts,
    disturbance=texts,
    log=st.sampled_from(["", "worker-1.log"]),
    conditions=st.none() | conditions,
    parts=st.none() | parts,
)
tolerances = st.builds(Tolerance, st.none() | st.floats(-0.99, -1e-6), st.none() | st.floats(1e-6, 1e6))
rows = st.builds(
    lambda **cells: baseline(**cells),
    reference=seconds,
    lower=st.none() | st.just(-math.inf) | st.floats(-0.99, -1e-6),
    upper=st.none() | st.just(math.inf) | seconds,
    runs=st.integers(1, 99),
    spread=st.none() | st.floats(0, 1),
    note=lines,
    environment=lines,
)
drops = st.lists(st.floats(-9, 9), min_size=1, max_size=5).map(tuple)
recordings = st.builds(
    Recording,
    test=texts,
    workload=st.sampled_from([WORKLOAD, Workload(model="my.nets:build", batch_size=1, xla=True)]),
    topology=st.sampled_from(["1x1", "2x8"]),
    machine=texts,
    devices=texts,
    trial=st.builds(
        Trial, st.lists(attempts, min_size=1, max_size=3).map(tuple), st.lists(attempts, max_size=2).map(tuple)
    ),
    steps=st.integers(1, 10**6),
    warmup_steps=st.integers(0, 10**6),
    max_seconds=seconds | st.just(math.inf),
    tolerance=st.none() | tolerances,
    default_tolerance=tolerances,
    invalid=texts,
    baseline=rows,
    floor=st.booleans(),
    noise=st.builds(Noise, st.floats(0, 10), st.floats(0.1, 1e3) | st.just(math.inf), texts),
    document=st.none() | rows,
    gpu_fp32_tflops=st.none() | seconds,
    tests=st.integers(1, 1000),
    credited=st.floats(-9, 9),
    nights=st.lists(st.builds(Night, drops, st.booleans()), max_size=2).map(tuple),
    hold=st.booleans(),
    device_data_images_per_sec=st.none() | seconds,
    environment=environments,
    commit=texts,
    time=texts,
    seconds=st.floats(0, 1e6),
)


def parse(data: bytes | str) -> Recording:
    return trial_file.parse(data if isinstance(data, bytes) else data.encode(), "night/a.json")


def changed(**fields: Any) -> str:
    """A whole file in which these top-level fields are others."""
    return json.dumps(json.loads(WHOLE) | fields)


@settings(deadline=None, max_examples=60)
@given(recordings)
def test_what_is_written_is_read_back(whole: Recording) -> None:
    assert parse(trial_file.render(whole)) == whole


def test_a_loss_that_is_no_number_is_read_back() -> None:
    run = attempt([0.1])
    nan = replace(run, windows=(Window(1, 0.1, math.nan),))
    (found,) = parse(trial_file.render(recording(trial=Trial((nan,))))).trial.attempts
    assert math.isnan(found.windows[0].loss or 0.0)


def test_a_file_is_json_that_any_program_reads() -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    data = trial_file.render(recording(max_seconds=math.inf, noise=Noise(0.01, math.inf, "")))
    json.loads(data, parse_constant=refuse)


def test_the_folder_of_a_workers_log_is_not_kept() -> None:
    data = trial_file.render(recording(trial=Trial((attempt([0.1], log="/home/ada/.tfperf/logs/worker-1.log"),))))
    assert (b"ada" in data, b'"worker-1.log"' in data) == (False, True)


# Names


def test_a_name_can_be_read() -> None:
    assert trial_file.name_of(recording()).startswith("resnet50-b64-replicated-device-1x8-test_b-1-")


@pytest.mark.parametrize(
    "other",
    [
        {"test": "perf_tests/test_c.py::test_b[1]"},
        {"topology": "1x4"},
        {"workload": WORKLOAD.with_(batch_size=1)},
        {"machine": "other"},
    ],
)
def test_another_test_workload_topology_or_machine_has_another_name(other: dict[str, Any]) -> None:
    assert trial_file.name_of(recording(**other)) != trial_file.name_of(recording())


def test_a_tests_second_check_has_another_name() -> None:
    assert trial_file.name_of(recording(), 1) != trial_file.name_of(recording(), 0)


@given(texts)
def test_any_test_makes_a_files_name(test: str) -> None:
    name = trial_file.name_of(recording(test=test))
    assert "/" not in name
    assert name[0] not in ".-"
    assert len(name) < 250


# Faulty files


@settings(deadline=None)
@given(st.integers(0, len(WHOLE) - 3))
def test_no_file_that_was_cut_off_is_read(kept: int) -> None:
    with pytest.raises(TfperfError, match=r"^night/a\.json.*--tfperf-save-trials"):
        parse(WHOLE[:kept])


@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(0, len(WHOLE)), st.integers(0, 40))
def test_a_damaged_file_is_an_error_or_a_recording(text: bytes, at: int, length: int) -> None:
    with suppress(TfperfError):
        parse(WHOLE[:at] + text + WHOLE[at + length :])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "line 1: cut off or damaged", id="empty"),
        pytest.param("[]", "no trial of pytest-tfperf, but a JSON list", id="list"),
        pytest.param("{}", "it lacks kind 'tfperf trial' and a format", id="foreign"),
        pytest.param(b"\xff\xfe{", "not JSON", id="not-utf-8"),
        pytest.param("[" * 100_000, "not JSON", id="deep"),
        pytest.param(changed(kind="a trial"), "it lacks kind", id="another-kind"),
        pytest.param(changed(format=4), "format 4 comes from a newer pytest-tfperf; this one reads", id="newer"),
        pytest.param(changed(format=0), "format 0 never was", id="format-0"),
        pytest.param(changed(format="1"), "it lacks kind", id="format-text"),
        pytest.param(changed(speed=1), "unknown field 'speed'", id="unknown-field"),
        pytest.param(changed(steps="100"), "steps: expected int, found '100'", id="text-for-a-number"),
        pytest.param(changed(hold=1), "hold: expected bool, found 1", id="number-for-a-flag"),
        pytest.param(changed(environment={"a": 1}), "environment.a: expected str, found 1", id="environment"),
        pytest.param(changed(workload="resnet50"), "workload: 'resnet50' is not a workload id", id="workload"),
        pytest.param(changed(topology="8"), "topology '8': it reads nodes x devices", id="topology"),
        pytest.param(changed(trial={"attempts": []}), "trial: it holds no attempt", id="no-attempt"),
        pytest.param(
            changed(trial={"attempts": [{}]}), "trial.attempts[0]: the field 'windows' is missing", id="no-windows"
        ),
        pytest.param(changed(noise=None), "a baseline comes with its noise", id="no-noise"),
        pytest.param(changed(tests=0), "tests is 1 or more", id="no-tests"),
        pytest.param(changed(credited="nan"), "credited a difference of logarithms", id="nan-credited"),
        pytest.param(changed(device_data_images_per_sec=0.0), "0.0 is no throughput", id="no-device-data"),
        pytest.param(changed(nights=[{"drops": []}]), "nights: each holds its runs' drops", id="empty-night"),
        pytest.param(changed(tolerance={"lower": -2.0}), "tolerance: tolerance: lower -2.0 must lie", id="tolerance"),
        pytest.param(changed(baseline="fast"), "baseline: expected a row of baselines", id="baseline-text"),
        pytest.param(changed(baseline={}), "baseline: the field 'machine' is missing", id="baseline-no-machine"),
        pytest.param(changed(baseline={"machine": "box"}), "baseline: no column workload", id="baseline-columns"),
    ],
)
def test_a_faulty_file_is_refused_with_its_name_and_the_place(text: bytes | str, said: str) -> None:
    with pytest.raises(TfperfError) as error:
        parse(text)
    assert str(error.value).startswith("night/a.json")
    assert said in str(error.value)


@pytest.mark.parametrize(
    "window", [{"steps": 0, "seconds": 1.0}, {"steps": 1, "seconds": 0.0}, {"steps": 1, "seconds": "nan"}]
)
def test_a_window_that_can_not_be_one_is_refused(window: dict[str, Any]) -> None:
    with pytest.raises(TfperfError, match=r"attempt 1: .* are no window"):
        parse(changed(trial={"attempts": [{"windows": [window], "images_per_step": 1}]}))


@pytest.mark.parametrize(
    "parts",
    [
        {"pipeline_images_per_sec": 0.0},
        {"products_multiply_adds_per_sec": "nan"},
        {"forward_multiply_adds": -1},
        {"pipeline_core_seconds_per_image": "inf"},
        {"cores": 0},
    ],
)
def test_parts_that_no_worker_has_are_refused(parts: dict[str, Any]) -> None:
    whole = {"windows": [{"steps": 1, "seconds": 1.0}], "images_per_step": 1, "parts": {"input": "fetched"} | parts}
    with pytest.raises(TfperfError, match=r"attempt 1: parts: "):
        parse(changed(trial={"attempts": [whole]}))


def test_a_file_of_the_first_format_is_read() -> None:
    old = json.loads(WHOLE) | {"format": 1}
    del old["device_data_images_per_sec"]
    for attempt_then in old["trial"]["attempts"]:
        del attempt_then["conditions"], attempt_then["parts"], attempt_then["fetches"]
    assert parse(json.dumps(old)) == recording()


def test_a_file_of_the_second_format_is_read() -> None:
    old = json.loads(WHOLE) | {"format": 2}
    for attempt_then in old["trial"]["attempts"]:
        del attempt_then["fetches"]
    assert parse(json.dumps(old)) == recording()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TfperfError, match=r"a\.json can't be read: No such file"):
        trial_file.read(tmp_path / "a.json")


# On disk


def test_a_later_recording_takes_the_earlier_ones_place(tmp_path: Path) -> None:
    trial_file.write(tmp_path / "new" / "folder", recording(seconds=1.0))
    path = trial_file.write(tmp_path / "new" / "folder", recording(seconds=2.0))
    assert ([p.name for p in path.parent.iterdir()], trial_file.read(path).seconds) == ([path.name], 2.0)


def test_a_folder_that_can_not_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TfperfError, match=r"can't be written: .*--tfperf-save-trials DIR"):
        trial_file.check_writable(tmp_path / "file")


def test_checking_a_folder_leaves_nothing_in_it(tmp_path: Path) -> None:
    trial_file.check_writable(tmp_path / "trials")
    assert list((tmp_path / "trials").iterdir()) == []


WRITER = f"""
import itertools, sys
from pathlib import Path
sys.path[:0] = {[str(folder) for folder in Path(__file__).parents[:2]]!r}
from test_trial_file import recording
from pytest_tfperf.stores import trial_file
for i in itertools.count():
    trial_file.write(Path(sys.argv[1]), recording(seconds=float(i)))
    print(i, flush=True)
"""


def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path) -> None:
    with running(WRITER, tmp_path) as process:
        assert process.stdout is not None
        for _ in range(20):
            said = process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
    finished = int([said, *rest.splitlines()][-1])
    assert trial_file.read(tmp_path / trial_file.name_of(recording())).seconds >= finished
