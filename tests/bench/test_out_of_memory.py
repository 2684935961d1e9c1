"""An out-of-memory error says which batch was too large and how much memory there is."""

from __future__ import annotations

import pytest

from pytest_tfperf.bench.run_engine import explained
from pytest_tfperf.core.topology import DeviceKind, Devices, Host, Topology
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import OutOfMemory
from pytest_tfperf.hardware.memory import Held
from tests.helpers.machines import load
from tests.helpers.measurements import command

XLA = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 5400000000 bytes."
WORKLOAD = Workload(model="resnet50", batch_size=256)


def test_the_message_has_batch_memory_allocation_and_error() -> None:
    host = Host(cpu_model="a CPU", usable_cores=2, total_cores=2, memory_bytes=64 * 2**30)
    machine = Topology(host=host, devices=Devices(kind=DeviceKind.CPU, count=2))
    said = str(explained(OutOfMemory(XLA), "resnet50 on a CPU", machine, WORKLOAD))
    for part in (
        "resnet50 on a CPU: out of memory with batch_size 256 on each of 2 devices",
        "64 GiB of the host",
        XLA,
    ):
        assert part in said


def test_gpus_are_named_with_their_memory() -> None:
    machine = load("dgx1-p100").take(2)
    said = str(explained(OutOfMemory("killed"), "both", machine, WORKLOAD, WORKLOAD.with_(batch_size=64)))
    assert "with batch_size 256 and 64 on each of 2 devices\n  memory      15.9 GiB + 15.9 GiB of the GPUs; " in said


def test_a_container_of_400_mib_is_not_said_to_have_no_memory() -> None:
    host = Host(cpu_model="a CPU", usable_cores=1, total_cores=1, memory_bytes=400 * 2**20)
    machine = Topology(host=host, devices=Devices(kind=DeviceKind.CPU, count=1))
    assert "memory      400 MiB of the host" in str(explained(OutOfMemory(XLA), "it", machine, WORKLOAD))


def test_a_program_has_no_batch_size_that_is_known() -> None:
    said = str(explained(OutOfMemory("the program was killed"), "it", load("dgx1-p100").take(1), command()))
    assert said.startswith("it: out of memory\n  memory ")
    assert "use a smaller batch, or" in said


@pytest.mark.parametrize(
    ("processes", "who"),
    [
        ({"python (pid 12)": 2**30, "java (pid 4711)": 12 * 2**30}, "java (pid 4711) 12 GiB, python (pid 12) 1 GiB"),
        ({}, "processes that can't be seen here (in a container: docker run --pid=host)"),
    ],
    ids=["named", "in a container"],
)
def test_the_processes_that_hold_an_occupied_gpu_are_named(processes: dict[str, int | None], who: str) -> None:
    occupied = Held("GPU-1", 13 * 2**30, 16 * 2**30, processes)
    said = str(explained(OutOfMemory(XLA), "it", load("dgx1-p100").take(1), WORKLOAD, held=[occupied]))
    assert f"\n  held        13 GiB of 16 GiB on GPU-1 are in use by {who}\n" in said
    assert "next        end the processes that hold the GPU's memory, or choose another GPU" in said


def test_what_a_driver_and_a_desktop_keep_explains_no_lack_of_memory() -> None:
    idle = Held("GPU-1", 2**30, 16 * 2**30, {"Xorg (pid 7)": 2**29})
    assert "held" not in str(explained(OutOfMemory(XLA), "it", load("dgx1-p100").take(1), WORKLOAD, held=[idle]))
