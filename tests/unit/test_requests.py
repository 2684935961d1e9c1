"""What a failed request for memory says of its size, and of batches that are hopeless."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.bench.requests import ON_A_GPU, hopeless, requested_bytes

TENSORFLOW = "OOM when allocating tensor with shape[9000,64,112] and type {} on /job:localhost/task:0/device:GPU:0"
NUMPY = "MemoryError: Unable to allocate 5.4 TiB for an array with shape (9000, 64, 112) and data type {}"
XLA = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 5400000000 bytes."
ELEMENTS = 9000 * 64 * 112


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (TENSORFLOW.format("float"), 4 * ELEMENTS),
        (TENSORFLOW.format("half"), 2 * ELEMENTS),
        (NUMPY.format("float64"), 8 * ELEMENTS),
        (NUMPY.format("uint8"), ELEMENTS),
        (NUMPY.format("float32").replace("(9000, 64, 112)", "(9000,)"), 36_000),
        (XLA, 5_400_000_000),
        (f"{TENSORFLOW.format('float')}\n{XLA}", 5_400_000_000),
        (TENSORFLOW.format("resource"), None),
        ("CUDA_ERROR_OUT_OF_MEMORY", None),
    ],
)
def test_the_size_of_a_request_is_read(text: str, size: int | None) -> None:
    assert requested_bytes(text) == size


@pytest.mark.parametrize(("text", "gpu"), [(TENSORFLOW, True), (NUMPY, False), ("by allocator GPU_0_bfc", True)])
def test_a_request_for_a_gpus_memory_is_known(text: str, gpu: bool) -> None:
    assert (ON_A_GPU.search(text) is not None) is gpu


@given(st.integers(1, 10**7), st.integers(1, 10**6), st.integers(0, 10**9), st.integers(1, 10**12))
def test_a_hopeless_batch_asks_for_all_there_is(batch: int, an_image: int, fixed: int, room: int) -> None:
    found = hopeless(batch, fixed + batch * an_image, room)
    assert found is None or fixed + found * an_image >= room


@given(st.integers(1, 10**7), st.integers(1, 10**6), st.integers(1, 10**12))
def test_below_a_hopeless_batch_a_request_has_room(batch: int, an_image: int, room: int) -> None:
    found = hopeless(batch, batch * an_image, room)
    assert found is None or (found - 1) * an_image < room


@pytest.mark.parametrize(("requested", "room"), [(None, 100), (100, None), (100, 100), (100, 0)])
def test_of_a_request_that_could_be_met_nothing_is_hopeless(requested: int | None, room: int | None) -> None:
    assert hopeless(10, requested, room) is None
