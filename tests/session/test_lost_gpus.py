"""A session on a machine that has lost a GPU, which the driver still counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pynvml
import pytest

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.hardware.discovery import discover
from tests.helpers.inner import ANY_THROUGHPUT, NOT_MEASURED, Project
from tests.helpers.measurements import baseline
from tests.helpers.stand_in_libraries import NvmlScenario

LOST = {"gpu.7.fail.nvmlDeviceGetHandleByIndex_v2": pynvml.NVML_ERROR_GPU_IS_LOST}
TESTS = """
    import pytest
    from pytest_tfperf import Workload

    pytestmark = pytest.mark.gpu

    @pytest.mark.parametrize("gpus", [1, 8])
    def test_it(throughput, gpu_topology, gpus):
        throughput.check(Workload(model="trivial", batch_size=1), on=gpu_topology.take(gpus))
"""
NAMED = "GPU 7 cannot be used: the driver has lost it"


def test_the_gate_names_the_lost_gpu_and_judges_tests_on_the_others_by_their_baselines(
    played_project: Project, nvml_scenario: NvmlScenario
) -> None:
    ini = played_project.folder / "pytest.ini"
    ini.write_text(ini.read_text().replace("tfperf_machine = box\n", ""))
    played_project.write("test_it.py", TESTS)
    nvml_scenario("dgx_a100")
    machine = discover({}).machine
    for gpus in (1, 8):
        key = Key("trivial-b1-replicated-device", f"1x{gpus}")
        row = baseline(**ANY_THROUGHPUT, machine=machine, gpu="NVIDIA A100-SXM4-40GB", key=key)
        played_project.baselines.update(machine, {key: row})
    nvml_scenario("dgx_a100", LOST)
    gated = played_project.run("--tfperf-require-baseline")
    assert (gated.status, gated.kinds) == (NOT_MEASURED, {"test_it[1]": "passed", "test_it[8]": "error"}), gated.text
    header, _, rest = gated.text.partition("test_it.py ")
    assert (header.count(NAMED), NAMED in gated.cases["test_it[8]"].text, f"\n{NAMED}" in rest) == (1, True, True)


def found(known: str, lost: Mapping[str, object], nvml_scenario: NvmlScenario, folder: Path) -> Topology:
    """The machine of four GPUs as it is found, where one machine has baselines."""
    nvml_scenario("4x_rtx_4090", lost)
    return discover({"CUDA_VISIBLE_DEVICES": "0"}, folder, is_known=lambda name: name.startswith(known))


@pytest.mark.parametrize(
    ("known", "key"),
    [
        pytest.param("4x-geforce-rtx-4090-phb-", "4x-geforce-rtx-4090-phb", id="known"),
        pytest.param("4x-geforce-rtx-4090-", "3x-geforce-rtx-4090-phb", id="several are known"),
        pytest.param("8x-", "3x-geforce-rtx-4090-phb", id="others are known"),
    ],
)
def test_the_key_is_that_of_the_whole_machine_where_one_is_known(
    known: str, key: str, nvml_scenario: NvmlScenario, tmp_path: Path
) -> None:
    lost = {"gpu.3.fail.nvmlDeviceGetUUID": pynvml.NVML_ERROR_GPU_IS_LOST}
    machine = found(known, lost, nvml_scenario, tmp_path)
    assert (machine.gpu_key, len(machine.gpus), len(machine.lost)) == (key, 1, 1)


def test_a_gpu_of_another_slurm_job_is_not_lost(nvml_scenario: NvmlScenario, tmp_path: Path) -> None:
    forbidden = {"gpu.3.fail.nvmlDeviceGetHandleByIndex_v2": pynvml.NVML_ERROR_NO_PERMISSION}
    machine = found("4x-", forbidden, nvml_scenario, tmp_path)
    assert (machine.gpu_key, machine.lost) == ("3x-geforce-rtx-4090-phb", ())


def test_a_machine_whose_only_gpu_is_lost_has_a_driver_that_fails(nvml_scenario: NvmlScenario, tmp_path: Path) -> None:
    nvml_scenario("h100_570", {"gpu.0.fail.nvmlDeviceGetUUID": pynvml.NVML_ERROR_GPU_IS_LOST})
    assert discover({}, tmp_path).driver_fault
