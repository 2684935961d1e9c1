"""The message about a worker's exception: whether memory was short, and what TensorFlow's build explains."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.failures import failure, hint


def of_tensorflow(kind: Any, text: str) -> Exception:
    return kind(None, None, text)  # type: ignore[no-any-return]


def caused_by(cause: Exception) -> WorkloadError:
    """As `loading` raises an error of a user's function."""
    error = WorkloadError("model 'nets:big' raised something")
    error.__cause__ = cause
    return error


OOM = of_tensorflow(tf.errors.ResourceExhaustedError, "OOM when allocating tensor")


@pytest.mark.parametrize(
    ("error", "short"),
    [
        (MemoryError(), True),
        (caused_by(MemoryError()), True),
        (OOM, True),
        (caused_by(OOM), True),
        (of_tensorflow(tf.errors.InternalError, "failed to alloc: CUDA_ERROR_OUT_OF_MEMORY: out of memory"), True),
        (of_tensorflow(tf.errors.InternalError, "Failed to create cuDNN handle: CUDNN_STATUS_ALLOC_FAILED"), True),
        (of_tensorflow(tf.errors.NotFoundError, "No algorithm worked!  Error messages:\n  RESOURCE_EXHAUSTED"), True),
        (of_tensorflow(tf.errors.InternalError, "Failed copying: Dst tensor is not initialized."), True),
        (of_tensorflow(tf.errors.UnknownError, "CUDNN failed to allocate the scratch space for the runner"), True),
        (of_tensorflow(tf.errors.FailedPreconditionError, "Failed to allocate scratch buffer for device 0"), True),
        (of_tensorflow(tf.errors.AbortedError, "Operation received an exception:Status: 1, message: could"), True),
        (of_tensorflow(tf.errors.AbortedError, "Operation received an exception:Status: 2, message: could"), False),
        (of_tensorflow(tf.errors.InternalError, "CUDA_ERROR_ILLEGAL_ADDRESS"), False),
        # TensorFlow 2.21's texts.
        (of_tensorflow(tf.errors.ResourceExhaustedError, "/data/memory/a; Too many open files [Op:ReadFile]"), False),
        (of_tensorflow(tf.errors.ResourceExhaustedError, "/tmp/cache_0; No space left on device"), False),
        (of_tensorflow(tf.errors.ResourceExhaustedError, "/home/me/x; Disk quota exceeded"), False),
        (of_tensorflow(tf.errors.ResourceExhaustedError, "Received message larger than max (9 vs. 4)"), False),
        (of_tensorflow(tf.errors.ResourceExhaustedError, "/dev/x; Cannot allocate memory"), True),
        (ValueError("shapes differ"), False),
        (caused_by(ValueError("out of memory")), False),
    ],
    ids=lambda value: f"{value!r} of {value.__cause__!r}: {value}"[:80] if isinstance(value, Exception) else "",
)
def test_a_lack_of_memory_is_recognised(error: Exception, short: bool) -> None:
    assert failure(error)["out_of_memory"] is short


def test_a_long_text_keeps_its_ends_and_the_log_gets_the_cause(capsys: pytest.CaptureFixture[str]) -> None:
    message = failure(ValueError("the beginning" + "x" * 100_000 + "the end"))["message"]
    assert len(message) < 21_000
    assert message.startswith("the beginning")
    assert message.endswith("the end")
    sent = failure(caused_by(ZeroDivisionError("no such depth")))
    assert (sent["type"], sent["ours"]) == ("WorkloadError", True)
    assert "ZeroDivisionError: no such depth" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "driver", "said"),
    [
        (
            "INVALID_HANDLE",
            (12, 2),
            "a driver of CUDA 12.5.1 or newer, and this one knows CUDA 12.2: update the driver",
        ),
        ("UNSUPPORTED_PTX_VERSION", None, "a driver of CUDA 12.5.1 or newer: update the driver"),
        ("INVALID_PTX", (13, 0), "Is the GPU newer than this TensorFlow, which was built for sm_60, compute_90?"),
        ("INVALID_HANDLE", None, "Is the GPU newer than this TensorFlow"),
        ("ILLEGAL_ADDRESS", (12, 2), ""),
    ],
)
def test_where_cuda_finds_no_code_for_a_gpu_an_old_driver_is_told_from_a_new_gpu(
    code: str, driver: tuple[int, int] | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The texts are those of tensorflow/tensorflow#99592; the build is TensorFlow 2.21's."""
    build = {"cuda_version": "12.5.1", "cuda_compute_capabilities": ["sm_60", "compute_90"]}
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: build)
    found = hint(
        of_tensorflow(tf.errors.InternalError, f"'cuLaunchKernel(...)' failed with 'CUDA_ERROR_{code}'"), driver
    )
    assert (said in found, bool(found)) == (True, bool(said))
