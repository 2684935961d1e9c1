"""The most memory that a program and what it starts need, of real processes; and who holds a GPU's, of played ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pynvml
import pytest

from pytest_tfperf.core.topology import Gpu
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.hardware.memory import Held, held, of_children, on_gpus
from pytest_tfperf.hardware.sampler import process_name
from tests.helpers.nvml_scenarios import FOREIGN_PID, GIB, SCENARIOS
from tests.helpers.stand_in_libraries import NvmlScenario

MIB = 2**20
HOLDS = "import sys; held = b'x' * ({mib} << 20); print('ready', flush=True); sys.stdin.read()"
SPIKES = "import sys; len(b'x' * ({mib} << 20)); print('ready', flush=True); sys.stdin.read()"
FORKS = "import os, sys; held = b'x' * ({mib} << 20); os.fork(); print('ready', flush=True); sys.stdin.read()"


@contextmanager
def started(code: str, mib: int) -> Iterator[None]:
    """A child of this process that has printed that it is ready."""
    command = [sys.executable, "-c", code.format(mib=mib)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.parametrize(
    ("code", "mib"),
    [
        pytest.param(HOLDS, 200, id="held"),
        pytest.param(SPIKES, 200, id="a-spike-that-is-over"),
        pytest.param(FORKS, 200, id="shared-pages-once"),
    ],
)
def test_the_peak_is_what_the_program_needed(code: str, mib: int) -> None:
    with started(code, mib), of_children(os.getpid()) as peak_bytes:
        peak = peak_bytes()
    assert peak is not None
    assert mib * MIB < peak < (mib + 100) * MIB


def test_a_program_that_is_gone_has_no_peak() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        with of_children(process.pid) as peak_bytes:
            assert peak_bytes() is None


# Of GPUs

UUID = "GPU-00000000-1111-2222-3333-444444444444"
V2_ONLY = {"gpu.0.fail.nvmlDeviceGetComputeRunningProcesses_v3": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param({"gpu.0.processes": "999999:1000"}, id="a-container-without-our-pids"),
        pytest.param({"gpu.0.mps_clients": "999999:0", "gpu.0.processes": "1:1000"}, id="MPS"),
        pytest.param(V2_ONLY, id="an-older-driver"),
    ],
)
def test_the_peak_on_a_gpu_is_what_its_memory_in_use_grew_by_at_most(
    nvml_scenario: NvmlScenario, machine: dict[str, object]
) -> None:
    nvml_scenario("h100_570", machine | {"gpu.0.memory_used": 30 * GIB})
    with on_gpus([Gpu(index=0, uuid=UUID, name="H100", memory_bytes=80 * GIB)]) as peak_bytes:
        nvml_scenario("h100_570", machine | {"gpu.0.memory_used": 37 * GIB})
        assert peak_bytes() == 7 * GIB


def test_a_gpu_whose_memory_is_not_reported_has_no_peak() -> None:
    with pytest.raises(MeasurementError, match="the memory in use on NVIDIA GB10"):
        on_gpus([Gpu(index=0, uuid=UUID, name="NVIDIA GB10")])


@pytest.mark.parametrize("knows_pids", [True, False])
def test_the_processes_that_hold_a_gpus_memory_are_named_where_they_can_be(
    nvml_scenario: NvmlScenario, knows_pids: bool
) -> None:
    nvml_scenario("h100_foreign", {"gpu.0.memory_used": 31 * GIB})
    total = SCENARIOS["h100_foreign"].cards[0].memory_bytes
    processes = {process_name(FOREIGN_PID): 30 * 10**9} if knows_pids else {}
    assert held([UUID], knows_pids=lambda: knows_pids) == (Held(UUID, 31 * GIB, total, processes),)
