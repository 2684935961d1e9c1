"""The stand-in's machines, through the real pynvml."""

from __future__ import annotations

import subprocess
import sys

import pynvml
import pytest

from pytest_tfperf.hardware.discovery import discover
from tests.helpers.stand_in_libraries import NvmlScenario


def test_a_process_that_a_test_starts_sees_the_machine_too(nvml_scenario: NvmlScenario):
    nvml_scenario("dgx_a100")
    command = [sys.executable, "-m", "pytest_tfperf.cli", "topology"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.startswith("machine  8x-a100-sxm4-40gb-nvlink-")


def test_a_machine_can_change_while_a_session_is_open(nvml_scenario: NvmlScenario):
    nvml_scenario("h100_570")
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetTemperature(handle, 0) == 40
    nvml_scenario("h100_570", {"gpu.0.fail.nvmlDeviceGetTemperature": pynvml.NVML_ERROR_GPU_IS_LOST})
    with pytest.raises(pynvml.NVMLError, match="GPU is lost"):
        pynvml.nvmlDeviceGetTemperature(handle, 0)


@pytest.mark.parametrize(
    ("name", "changed", "shown", "indices"),
    [
        ("4x_rtx_4090", {}, {}, [0, 1, 2, 3]),
        ("4x_rtx_4090", {}, {"CUDA_VISIBLE_DEVICES": "3,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, [3, 1]),
        ("4x_rtx_4090", {"gpu.0.fail.nvmlDeviceGetUUID": pynvml.NVML_ERROR_NO_PERMISSION}, {}, [0, 1, 2]),
        ("4x_rtx_4090", {"gpu.0.fail.nvmlDeviceGetUUID": pynvml.NVML_ERROR_GPU_IS_LOST}, {}, [None] * 3),
        ("dgx_a100_mig", {"gpu.0.mig": 0}, {"CUDA_VISIBLE_DEVICES": "GPU-00000000"}, [None]),
    ],
    ids=["all", "some are shown", "another Slurm job's", "lost", "MIG"],
)
def test_a_gpu_has_an_index_for_cuda_where_no_other_could_change_it(
    nvml_scenario: NvmlScenario, tmp_path, name, changed, shown, indices
):
    nvml_scenario(name, changed)
    assert [gpu.cuda_index for gpu in discover(shown, tmp_path).gpus] == indices
