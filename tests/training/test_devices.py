"""How devices are configured; GPUs are fakes here, and real devices are configured in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
import tensorflow as tf
from patience import SESSION_SECONDS

from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.errors import NotEnoughDevices
from pytest_tfperf.training.devices import configure, has_kernels
from pytest_tfperf.training.failures import hint

GPU = DeviceKind.GPU
BUILD = {"cuda_compute_capabilities": ["sm_60", "sm_70", "sm_80", "sm_89", "compute_90"]}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Two fake GPUs, and the calls by which they are configured."""
    made = SimpleNamespace(visible=None, growing=[], parts=[])
    gpus = ["first", "second"]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus if kind == "GPU" else [])
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda seen, kind: setattr(made, "visible", list(seen)))
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda gpu, on: made.growing.append((gpu, on)))
    monkeypatch.setattr(
        tf.config,
        "set_logical_device_configuration",
        lambda gpu, parts: made.parts.append((gpu, [part.memory_limit for part in parts])),
    )
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: ["a logical device"] * 4)
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: BUILD)
    return made


def test_gpus_take_memory_as_they_need_it(calls: SimpleNamespace) -> None:
    assert configure(Devices(kind=GPU, count=2, gpu_uuids=("a", "b"))) == ["GPU:0", "GPU:1"]
    assert (calls.visible, calls.growing, calls.parts) == (["first", "second"], [("first", True), ("second", True)], [])


def test_no_more_gpus_are_visible_than_are_used(calls: SimpleNamespace) -> None:
    configure(Devices(kind=GPU, count=1))
    assert calls.visible == ["first"]


@pytest.mark.parametrize(("free_mib", "count", "limit"), [(9 * 1024, 4, 2048), (100_000, 2, 47_500)])
def test_a_split_gpu_keeps_some_memory_free(calls: SimpleNamespace, free_mib: int, count: int, limit: int) -> None:
    names = configure(Devices(kind=GPU, count=count, split=True), free_mib=lambda _: free_mib)
    assert names == [f"GPU:{i}" for i in range(count)]
    assert (calls.visible, calls.growing, calls.parts) == (["first"], [], [("first", [limit] * count)])


def test_too_few_gpus_are_named_with_the_likely_reasons(calls: SimpleNamespace) -> None:
    reasons = r"sees 2 GPU device\(s\), and 3 are needed \(a, b, c\).*built for sm_60.*ignores older.*built for CUDA"
    with pytest.raises(NotEnoughDevices, match=reasons):
        configure(Devices(kind=GPU, count=3, gpu_uuids=("a", "b", "c")))


@pytest.mark.parametrize(
    ("capability", "has"),
    [((5, 2), 0), ((6, 1), 1), ((7, 5), 1), ((8, 6), 1), ((9, 0), 1), ((10, 0), 0), ((12, 0), 0)],
)
def test_kernels_run_on_their_generation_and_on_later_chips_of_it(capability: tuple[int, int], has: int) -> None:
    assert has_kernels(BUILD["cuda_compute_capabilities"], capability) is bool(has)


@pytest.mark.parametrize(
    ("error", "capability", "build", "hinted"),
    [
        (tf.errors.InternalError(None, None, "CUDA_ERROR_INVALID_HANDLE"), (12, 0), BUILD, True),
        (tf.errors.InternalError(None, None, "CUDA_ERROR_INVALID_HANDLE"), (8, 6), BUILD, False),
        (tf.errors.InternalError(None, None, "CUDA_ERROR_INVALID_HANDLE"), (12, 0), {}, False),
        (ValueError("shapes differ"), (12, 0), BUILD, False),
    ],
)
def test_an_error_of_tensorflow_on_a_gpu_without_kernels_says_so(
    monkeypatch: pytest.MonkeyPatch, error: Exception, capability: tuple[int, int], build: dict, hinted: bool
) -> None:
    gpu = SimpleNamespace(name="/physical_device:GPU:0", compute_capability=capability)
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [gpu])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", vars)
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: build)
    assert ("GPU:0 has compute capability 12.0, and this TensorFlow" in hint(error)) is hinted


def printed(code: str) -> str:
    """By a fresh process, in which devices are not configured yet."""
    start = (
        "from pytest_tfperf.errors import TfperfError\n"
        "from pytest_tfperf.core.topology import DeviceKind, Devices\n"
        "from pytest_tfperf.training.devices import configure, max_threads, limit_threads\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", start + code], capture_output=True, text=True, timeout=SESSION_SECONDS, check=True
    )
    return done.stdout.strip()


def test_devices_are_configured_once() -> None:
    code = """
configure(Devices(kind=DeviceKind.CPU, count=2))
try:
    configure(Devices(kind=DeviceKind.CPU, count=3))
except TfperfError as e:
    print(e)
"""
    assert "once in a process" in printed(code)


@pytest.mark.parametrize(("cores", "threads"), [("1", "1"), ("4", "4"), ("None", "4")])
def test_threads_are_no_more_than_the_quota(cores: str, threads: str) -> None:
    code = f"""
import os
os.sched_getaffinity = lambda _: range(4)
limit_threads({cores})
print(max_threads())
"""
    assert printed(code) == threads


def test_a_count_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 device"):
        configure(Devices(kind=DeviceKind.CPU, count=0))


def test_virtual_cpus_are_as_many_as_were_asked_for(cpus: list[str]) -> None:
    assert cpus == ["CPU:0", "CPU:1", "CPU:2", "CPU:3"]
    assert len(tf.config.list_logical_devices("CPU")) == 4
