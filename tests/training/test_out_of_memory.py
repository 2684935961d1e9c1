"""Which of a worker's errors are a lack of memory."""

from __future__ import annotations

import pytest
import tensorflow as tf

from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.worker import _out_of_memory


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
    ],
    ids=lambda error: f"{error!r} of {error.__cause__!r}: {error}"[:80],
)
def test_a_lack_of_memory_is_known(error: Exception) -> None:
    assert _out_of_memory(error)


def test_the_error_of_tensorflows_own_allocator_is_known() -> None:
    assert _out_of_memory(raised_by_tensorflow())


@pytest.mark.parametrize(
    "error",
    [
        ValueError("shapes differ"),
        wrapped(ValueError("out of memory")),
        tf.errors.InternalError(None, None, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        tf.errors.InvalidArgumentError(None, None, "not a JPEG"),
    ],
    ids=lambda error: f"{error!r} of {error.__cause__!r}: {error}"[:80],
)
def test_other_errors_are_not_taken_for_it(error: Exception) -> None:
    assert not _out_of_memory(error)
