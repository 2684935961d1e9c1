"""A GPU that TensorFlow has no kernels for is named beside what fails on it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import tensorflow as tf

from pytest_tfperf.training.architectures import Capability, advice, has_kernels

BUILT_FOR = ["sm_60", "sm_70", "sm_80", "sm_89", "compute_90"]
FAILED = tf.errors.InternalError(None, None, "CUDA_ERROR_INVALID_HANDLE")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A stand-in GPU of compute capability 12.0."""
    it = SimpleNamespace(name="/physical_device:GPU:0", compute_capability=(12, 0))
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [it])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", vars)
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: {"cuda_compute_capabilities": BUILT_FOR})
    return it


@pytest.mark.parametrize(
    ("capability", "has"),
    [
        ((5, 2), False),
        ((6, 1), True),
        ((7, 5), True),
        ((8, 6), True),
        ((9, 0), True),
        ((10, 0), False),
        ((12, 0), False),
    ],
)
def test_kernels_run_on_their_generation_and_on_later_chips_of_it(capability: Capability, has: bool) -> None:
    assert has_kernels(BUILT_FOR, capability) is has


def test_an_error_on_a_gpu_without_kernels_says_so(gpu: SimpleNamespace) -> None:
    assert "GPU:0 has compute capability 12.0, and this TensorFlow" in advice(FAILED)


def test_an_error_on_a_gpu_with_kernels_does_not(gpu: SimpleNamespace) -> None:
    gpu.compute_capability = (8, 6)
    assert advice(FAILED) == ""


def test_an_error_that_is_not_tensorflows_does_not(gpu: SimpleNamespace) -> None:
    assert advice(ValueError("shapes differ")) == ""


def test_a_build_that_does_not_say_what_it_is_for_is_no_reason(
    gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tf.sysconfig, "get_build_info", dict)
    assert advice(FAILED) == ""
