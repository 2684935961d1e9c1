"""An out-of-memory error says what was too large, what was asked for, and how much memory there is."""

from __future__ import annotations

import pytest
from machines import load

from pytest_tfperf.bench.out_of_memory import explained, requested_bytes
from pytest_tfperf.core.topology import DeviceKind, Devices, Host, Topology
from pytest_tfperf.core.workload import Workload

TENSORFLOW = "OOM when allocating tensor with shape[9000,64,112] and type {} on /job:localhost/task:0/device:GPU:0"
NUMPY = "MemoryError: Unable to allocate 5.4 TiB for an array with shape (9000, 64, 112) and data type {}"
XLA = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 5400000000 bytes."
ELEMENTS = 9000 * 64 * 112
WORKLOAD = Workload(model="resnet50", batch_size=256)


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
def test_the_size_of_an_allocation_is_read_from_the_error(text: str, size: int | None) -> None:
    assert requested_bytes(text) == size


def test_the_message_has_batch_memory_allocation_and_error() -> None:
    host = Host(cpu_model="a CPU", usable_cores=2, total_cores=2, memory_bytes=64 * 2**30)
    machine = Topology(host=host, devices=Devices(kind=DeviceKind.CPU, count=2))
    said = explained(XLA, machine, WORKLOAD)
    for part in ("out of memory with batch_size 256 on each of 2 devices", "64 GiB of the host", "5.0 GiB in one", XLA):
        assert part in said


def test_gpus_are_named_with_their_memory() -> None:
    said = explained("killed", load("dgx1-p100").take(2), WORKLOAD, WORKLOAD.with_(batch_size=64))
    assert "with batch_size 256 and 64 on each of 2 devices\n  memory      16 GiB + 16 GiB of the GPUs; " in said
    assert "asked for" not in said
