"""What TensorFlow is told to see; GPUs are stand-ins here, since devices are configured once in a process."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
import tensorflow as tf
from patience import SESSION_SECONDS

from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.errors import NotEnoughDevices
from pytest_tfperf.training import devices

GPU = DeviceKind.GPU


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Two stand-in GPUs of 9 GiB, and what TensorFlow was told about them."""
    said = SimpleNamespace(visible=None, growing=[], parts=[])
    gpus = ["first", "second"]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus if kind == "GPU" else [])
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda seen, kind: setattr(said, "visible", list(seen)))
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda gpu, on: said.growing.append((gpu, on)))
    monkeypatch.setattr(
        tf.config,
        "set_logical_device_configuration",
        lambda gpu, parts: said.parts.append((gpu, [part.memory_limit for part in parts])),
    )
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: ["a logical device"] * 4)
    monkeypatch.setattr(devices, "_gpu_mib", lambda asked: 9 * 1024)
    return said


def test_gpus_take_memory_as_they_need_it(told: SimpleNamespace) -> None:
    assert devices.configure(Devices(kind=GPU, count=2, gpu_uuids=("a", "b"))) == ["GPU:0", "GPU:1"]
    assert (told.visible, told.growing, told.parts) == (["first", "second"], [("first", True), ("second", True)], [])


def test_only_as_many_gpus_as_asked_for_are_seen(told: SimpleNamespace) -> None:
    devices.configure(Devices(kind=GPU, count=1))
    assert told.visible == ["first"]


def test_a_split_gpu_shares_its_memory_out(told: SimpleNamespace) -> None:
    assert devices.configure(Devices(kind=GPU, count=4, split=True)) == ["GPU:0", "GPU:1", "GPU:2", "GPU:3"]
    assert (told.visible, told.growing, told.parts) == (["first"], [], [("first", [2048] * 4)])


def test_of_a_large_gpu_a_part_stays_free(told: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_gpu_mib", lambda asked: 100_000)
    devices.configure(Devices(kind=GPU, count=2, split=True))
    assert told.parts == [("first", [47_500] * 2)]


def test_gpus_that_are_left_out_without_a_word_are_spoken_of(
    told: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = {"cuda_compute_capabilities": ["sm_60", "compute_90"], "cuda_version": "12.5.1"}
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: built)
    with pytest.raises(NotEnoughDevices, match=r"built for sm_60, compute_90, and leaves older"):
        devices.configure(Devices(kind=GPU, count=3))


def test_too_few_gpus_are_named(told: SimpleNamespace) -> None:
    with pytest.raises(NotEnoughDevices, match=r"sees 2 GPU device\(s\), 3 asked for \(a, b, c\).*built for CUDA"):
        devices.configure(Devices(kind=GPU, count=3, gpu_uuids=("a", "b", "c")))


def in_a_fresh_process(code: str) -> str:
    start = (
        "from pytest_tfperf.errors import TfperfError\n"
        "from pytest_tfperf.core.topology import DeviceKind, Devices\n"
        "from pytest_tfperf.training.devices import configure, cores_for_threads, keep_to_quota\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", start + code], capture_output=True, text=True, timeout=SESSION_SECONDS, check=True
    )
    return done.stdout.strip()


def test_a_second_configuration_says_that_it_is_too_late() -> None:
    code = """
configure(Devices(kind=DeviceKind.CPU, count=2))
try:
    configure(Devices(kind=DeviceKind.CPU, count=3))
except TfperfError as e:
    print(e)
"""
    assert "once in a process" in in_a_fresh_process(code)


@pytest.mark.parametrize(("cores", "threads"), [("1", "1"), ("4", "4"), ("None", "4")])
def test_threads_are_no_more_than_a_quota_leaves(cores: str, threads: str) -> None:
    """A quota of so many cores under an affinity of four."""
    code = f"""
import os
os.sched_getaffinity = lambda _: range(4)
keep_to_quota({cores})
print(cores_for_threads())
"""
    assert in_a_fresh_process(code) == threads


def test_a_count_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 device"):
        devices.configure(Devices(kind=DeviceKind.CPU, count=0))


def test_virtual_cpus_are_as_many_as_asked_for(cpus: list[str]) -> None:
    assert cpus == ["CPU:0", "CPU:1", "CPU:2", "CPU:3"]
    assert len(tf.config.list_logical_devices("CPU")) == 4
