"""The message about a worker's exception: whether memory was short, and who may hold it."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.failures import failure


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
        (ValueError("shapes differ"), False),
        (caused_by(ValueError("out of memory")), False),
    ],
    ids=lambda value: f"{value!r} of {value.__cause__!r}: {value}"[:80] if isinstance(value, Exception) else "",
)
def test_a_lack_of_memory_is_recognised(error: Exception, short: bool) -> None:
    assert failure(error)["out_of_memory"] is short


@pytest.mark.parametrize(
    ("text", "hinted"),
    [
        ("cudaSetDevice() on GPU:0 failed. Status: out of memory", True),
        ("No BLAS support for stream", True),
        ("No DNN support in stream.", True),
        ("NCCL operation ncclAllReduce failed: unhandled cuda error", True),
        ("OOM when allocating tensor", False),  # our own batch is too large
    ],
)
def test_another_process_is_suspected_only_where_libraries_find_no_room(text: str, hinted: bool) -> None:
    hint = failure(of_tensorflow(tf.errors.InternalError, text))["hint"]
    assert ("nvidia-smi shows which" in hint) is hinted


def test_a_long_text_keeps_its_ends_and_the_log_gets_the_cause(capsys: pytest.CaptureFixture[str]) -> None:
    message = failure(ValueError("the beginning" + "x" * 100_000 + "the end"))["message"]
    assert len(message) < 21_000
    assert message.startswith("the beginning")
    assert message.endswith("the end")
    sent = failure(caused_by(ZeroDivisionError("no such depth")))
    assert (sent["type"], sent["ours"]) == ("WorkloadError", True)
    assert "ZeroDivisionError: no such depth" in capsys.readouterr().err


def test_a_gpu_that_is_newer_than_tensorflow_is_suspected_where_cuda_finds_no_code_for_it() -> None:
    error = of_tensorflow(tf.errors.InternalError, "'cuLaunchKernel(...)' failed with 'CUDA_ERROR_INVALID_PTX'")
    assert "Is the GPU newer than this TensorFlow, which was built for" in failure(error)["hint"]
