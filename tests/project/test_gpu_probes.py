"""What a first day on a GPU records of NVML's answers can be played again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_tfperf.hardware.discovery import discover
from tests.helpers.nvml_scenarios import SCENARIOS
from tests.helpers.stand_in_libraries import NvmlScenario
from tools.gpu_probes import record

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
