"""The message about a worker's exception: whether memory was short, and who may hold it."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.failures import failure, hint, is_out_of_memory


def caused_by(cause: Exception) -> WorkloadError:
    """As `loading` raises an error of a user's function."""
    error = WorkloadError("model 'nets:big' raised something")
    error.__cause__ = cause
    return error


def of_tensorflow(kind: Any, text: str) -> Exception:
    return kind(None, None, text)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        caused_by(MemoryError()),
        of_tensorflow(tf.errors.ResourceExhaustedError, "OOM when allocating tensor"),
        caused_by(of_tensorflow(tf.errors.ResourceExhaustedError, "OOM when allocating tensor")),
        of_tensorflow(tf.errors.InternalError, "failed to alloc: CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
        of_tensorflow(tf.errors.InternalError, "Failed to create cuDNN handle: CUDNN_STATUS_ALLOC_FAILED"),
        of_tensorflow(tf.errors.NotFoundError, "No algorithm worked!  Error messages:\n  RESOURCE_EXHAUSTED: Out of"),
        of_tensorflow(tf.errors.InternalError, "Failed copying input tensor: Dst tensor is not initialized."),
        of_tensorflow(tf.errors.AbortedError, "Operation received an exception:Status: 1, message: could not create"),
    ],
    ids=lambda error: f"{error!r} of {error.__cause__!r}: {error}"[:80],
)
def test_a_lack_of_memory_is_recognised(error: Exception) -> None:
    assert is_out_of_memory(error)


def test_the_error_of_tensorflows_own_allocator_is_recognised(cpus: list[str]) -> None:
    with pytest.raises(tf.errors.OpError) as caught:
        tf.fill([1 << 31, 1 << 29], 1.0)  # 4 EiB, which no machine holds
    assert is_out_of_memory(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("shapes differ"),
        caused_by(ValueError("out of memory")),
        of_tensorflow(tf.errors.InternalError, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        of_tensorflow(tf.errors.InvalidArgumentError, "not a JPEG"),
        of_tensorflow(tf.errors.AbortedError, "Operation received an exception:Status: 2, message: could not create"),
    ],
    ids=lambda error: f"{error!r} of {error.__cause__!r}: {error}"[:80],
)
def test_other_errors_are_not_taken_for_a_lack_of_memory(error: Exception) -> None:
    assert not is_out_of_memory(error)


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
    assert ("nvidia-smi shows which" in hint(of_tensorflow(tf.errors.InternalError, text))) is hinted


def test_a_long_text_keeps_its_ends_and_the_log_gets_the_cause(capsys: pytest.CaptureFixture[str]) -> None:
    sent = failure(ValueError("the beginning" + "x" * 100_000 + "the end"))
    assert len(sent["message"]) < 21_000
    assert sent["message"].startswith("the beginning")
    assert sent["message"].endswith("the end")
    sent = failure(caused_by(ZeroDivisionError("no such depth")))
    assert (sent["type"], sent["ours"], sent["out_of_memory"]) == ("WorkloadError", True, False)
    assert "ZeroDivisionError: no such depth" in capsys.readouterr().err
