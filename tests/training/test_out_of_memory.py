"""Which of a worker's errors are a lack of memory."""

from __future__ import annotations

import pytest
import tensorflow as tf

from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.out_of_memory import out_of_memory, who_has_it


def wrapped(cause: Exception) -> WorkloadError:
    """As `loading` wraps what a user's function raises."""
    error = WorkloadError("model 'nets:big' raised something")
    error.__cause__ = cause
    return error


def raised_by_tensorflow() -> Exception:
    """TensorFlow's own error for a tensor of 4 EiB, which no machine holds."""
    with pytest.raises(tf.errors.OpError) as caught:
        tf.fill([1 << 31, 1 << 29], 1.0)
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        wrapped(MemoryError()),
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor"),
        wrapped(tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")),
        tf.errors.InternalError(None, None, "failed to alloc: CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
        tf.errors.InternalError(None, None, "Failed to create cuDNN handle: CUDNN_STATUS_ALLOC_FAILED"),
        tf.errors.NotFoundError(
            None,
            None,
            "No algorithm worked!  Error messages:\n  RESOURCE_EXHAUSTED: Out of memory while trying to allocate",
        ),
        tf.errors.InternalError(None, None, "Failed copying input tensor: Dst tensor is not initialized."),
        tf.errors.InternalError(None, None, "cudaSetDevice() on GPU:0 failed. Status: out of memory"),
        tf.errors.AbortedError(
            None,
            None,
            "Operation received an exception:Status: 1, message: could not create a primitive, in file mkl.cc",
        ),
    ],
    ids=lambda error: f"{error!r} of {error.__cause__!r}: {error}"[:80],
)
def test_a_lack_of_memory_is_known(error: Exception) -> None:
    assert out_of_memory(error)


def test_the_error_of_tensorflows_own_allocator_is_known() -> None:
    assert out_of_memory(raised_by_tensorflow())


@pytest.mark.parametrize(
    "error",
    [
        ValueError("shapes differ"),
        wrapped(ValueError("out of memory")),
        tf.errors.InternalError(None, None, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        tf.errors.InvalidArgumentError(None, None, "not a JPEG"),
        tf.errors.AbortedError(
            None, None, "Operation received an exception:Status: 2, message: could not create a primitive"
        ),
    ],
    ids=lambda error: f"{error!r} of {error.__cause__!r}: {error}"[:80],
)
def test_other_errors_are_not_taken_for_it(error: Exception) -> None:
    assert not out_of_memory(error)


@pytest.mark.parametrize(
    "text",
    [
        "cudaSetDevice() on GPU:0 failed. Status: out of memory",
        "No BLAS support for stream",
        "No DNN support in stream.",
        "NCCL operation ncclAllReduce failed: unhandled cuda error",
    ],
)
def test_where_another_process_may_have_the_memory_it_is_said(text: str) -> None:
    assert "nvidia-smi shows which" in who_has_it(tf.errors.InternalError(None, None, text))


def test_where_our_own_batch_is_too_large_nobody_else_is_blamed() -> None:
    assert who_has_it(tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")) == ""
