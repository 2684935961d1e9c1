"""What a probe waits for at the end of a window: stand-ins for devices that this machine lacks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from pytest_tfperf.probe.frameworks import in_tensorflow


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The devices that TensorFlow was asked to wait for."""
    devices: list[str] = []
    current: list[str] = []

    @contextmanager
    def device(name: str) -> Iterator[None]:
        current.append(name)
        yield
        current.pop()

    operations = SimpleNamespace(SyncDevice=lambda: devices.append(current[-1]))
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(device=device, raw_ops=operations))
    return devices


def wait(*, is_started: bool = True, is_eager: bool = True) -> None:
    """Wait as at the end of a window, in a program with two GPUs."""
    context = SimpleNamespace(_initialized=is_started, executing_eagerly=lambda: is_eager, num_gpus=lambda: 2)
    probe = SimpleNamespace(hooks=[])
    in_tensorflow(SimpleNamespace(context_safe=lambda: context), probe)
    for hook in probe.hooks:
        hook()


def test_each_gpu_of_tensorflow_is_waited_for(waited: list[str]) -> None:
    wait()
    assert waited == ["/GPU:0", "/GPU:1"]


def test_a_tensorflow_that_only_loads_data_is_not_started(waited: list[str]) -> None:
    wait(is_started=False)
    assert waited == []


def test_nothing_is_added_to_a_graph_that_is_traced(waited: list[str]) -> None:
    wait(is_eager=False)
    assert waited == []
