"""What a first day on a GPU records of NVML's answers can be played again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_tfperf.hardware.discovery import discover
from tests.helpers.nvml_scenarios import SCENARIOS
from tests.helpers.stand_in_libraries import NvmlScenario
from tools.gpu_probes import record

ROOT = Path(__file__).parents[2]

# A driver that can't be initialised has nothing to record.
RECORDED = sorted(SCENARIOS.keys() - {"unknown_error"})


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_machine_is_the_machine(nvml_scenario: NvmlScenario, tmp_path: Path, name: str) -> None:
    played = nvml_scenario(name)
    before = discover({}, tmp_path)
    record(str(tmp_path / "recorded.txt"))
    shutil.copy(tmp_path / "recorded.txt", played)
    assert discover({}, tmp_path) == before


def test_all_answers_are_recorded(nvml_scenario: NvmlScenario, tmp_path: Path) -> None:
    played = nvml_scenario("h100_foreign")
    record(str(tmp_path / "recorded.txt"))
    # The order of lines is free, and the path between GPUs is asked where there are two.
    lines = {*played.read_text().splitlines()} - {"common_ancestor 50"}
    recorded = {*(tmp_path / "recorded.txt").read_text().splitlines()}
    assert {line for line in lines if not line.startswith("gpu.0.clock_reasons")} - recorded == set()


@pytest.mark.parametrize("probe", ["cold", "own", "foreign", "held"])
@pytest.mark.parametrize(
    ("torch", "said"),
    [("raise RuntimeError('no kernel image')", "RuntimeError: no kernel image"), ("raise ImportError", "busy sleep")],
    ids=["died", "not on a GPU"],
)
def test_a_probe_whose_busy_process_does_not_use_the_gpu_fails(
    nvml_scenario: NvmlScenario, tmp_path: Path, probe: str, torch: str, said: str
) -> None:
    nvml_scenario("h100_570")
    (tmp_path / "torch.py").write_text(torch)
    failed = probed(probe, PYTHONPATH=str(tmp_path))
    assert failed.returncode == 1
    assert "FAILED: the process that should use the GPU said: " in failed.stderr
    assert said in failed.stderr


@pytest.mark.parametrize(
    ("probe", "said"), [("own", "NVML never showed the use"), ("held", "the process took no memory")]
)
def test_a_probe_that_sees_no_use_of_the_gpu_fails(
    nvml_scenario: NvmlScenario, tmp_path: Path, probe: str, said: str
) -> None:
    nvml_scenario("h100_570")
    (tmp_path / "torch.py").write_text("raise ImportError")
    assert f"FAILED: {said}" in probed(probe, STAND_IN="1", PYTHONPATH=str(tmp_path)).stderr


def probed(probe: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"SCALE": "0.02"} | variables
    command = [sys.executable, str(ROOT / "tools/gpu_probes.py"), probe]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
