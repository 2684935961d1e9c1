"""The most memory that a program and what it starts need, of real processes; and who holds a GPU's, of played ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pynvml
import pytest

from pytest_tfperf.core.topology import Gpu
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.hardware.memory import Held, held, of_children, on_gpus, refusing_preallocation
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


MAPS = """
import mmap, os, sys
maps = [mmap.mmap(os.open(path, os.O_RDONLY), 0, prot=mmap.PROT_READ) for path in sys.argv[1:]]
print("ready", flush=True)
sys.stdin.read()
"""
DRIVER = "libcuda.so.570.1"


def peak_of_a_program(folder: Path, *libraries: str, **variables: str) -> int | None:
    """Of a child that has loaded files of these names."""
    paths = [folder / library for library in libraries]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"library")
    command = [sys.executable, "-c", MAPS, *map(str, paths)]
    with subprocess.Popen(
        command, env=os.environ | variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        with process.stdin, refusing_preallocation(lambda: 7, os.getpid()) as peak_bytes:
            return peak_bytes()


@pytest.mark.parametrize(
    ("library", "variables", "variable"),
    [
        ("jaxlib/libjax_common.so", {}, "XLA_PYTHON_CLIENT_PREALLOCATE"),
        ("jaxlib/xla_extension.so", {"XLA_PYTHON_CLIENT_PREALLOCATE": "true"}, "XLA_PYTHON_CLIENT_PREALLOCATE"),
        ("tensorflow/libtensorflow_framework.so.2", {}, "TF_FORCE_GPU_ALLOW_GROWTH"),
    ],
)
def test_a_program_that_takes_the_whole_card_has_no_peak_there(
    library: str, variables: dict[str, str], variable: str, tmp_path: Path
) -> None:
    with pytest.raises(MeasurementError, match="takes most of a GPU's memory in advance") as refused:
        peak_of_a_program(tmp_path, library, DRIVER, **variables)
    assert f"Give the Command env={{'{variable}': '" in refused.value.next_step


@pytest.mark.parametrize(
    ("libraries", "variables"),
    [
        pytest.param(["jaxlib/x.so", DRIVER], {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}, id="jax-that-grows"),
        pytest.param(
            ["tensorflow/libtensorflow_framework.so.2", DRIVER],
            {"TF_FORCE_GPU_ALLOW_GROWTH": "true"},
            id="tf-that-grows",
        ),
        pytest.param(["torch/libtorch_cuda.so", DRIVER], {}, id="another-framework"),
        pytest.param(["jaxlib/x.so"], {}, id="jax-on-cpus"),
    ],
)
def test_the_peak_of_any_other_program_is_told(libraries: list[str], variables: dict[str, str], tmp_path: Path) -> None:
    assert peak_of_a_program(tmp_path, *libraries, **variables) == 7


@pytest.mark.parametrize("knows_pids", [True, False])
def test_the_processes_that_hold_a_gpus_memory_are_named_where_they_can_be(
    nvml_scenario: NvmlScenario, knows_pids: bool
) -> None:
    nvml_scenario("h100_foreign", {"gpu.0.memory_used": 31 * GIB})
    total = SCENARIOS["h100_foreign"].cards[0].memory_bytes
    processes = {process_name(FOREIGN_PID): 30 * 10**9} if knows_pids else {}
    assert held([UUID], knows_pids=lambda: knows_pids) == (Held(UUID, 31 * GIB, total, processes),)
