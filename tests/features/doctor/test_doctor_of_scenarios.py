"""What `tfperf doctor` finds of the stand-in's machines, through the real pynvml."""

from __future__ import annotations

from pathlib import Path

from pytest_tfperf.features.doctor.fitness import Level
from pytest_tfperf.features.doctor.gpu_fitness import gpu_findings
from pytest_tfperf.features.doctor.tensorflow_fitness import Build, Installed, Libraries
from tests.helpers.expected import SameTexts
from tests.helpers.nvml_scenarios import SCENARIOS
from tests.helpers.stand_in_libraries import NvmlScenario

TF_2_21 = Build((12, 5), ((6, 0), (7, 0), (8, 0), (8, 9)), ((9, 0),))  # its build_info.py
INSTALLED = Installed(TF_2_21, Libraries(cudnn=(9, 28)))  # what `pip install tensorflow[and-cuda]` takes today


def test_each_machines_faults_are_named(nvml_scenario: NvmlScenario, tmp_path: Path, same_texts: SameTexts) -> None:
    def found(name: str) -> list[str]:
        nvml_scenario(name)
        cache = {"CUDA_CACHE_PATH": "/home/me/.nv/ComputeCache"}
        findings = gpu_findings(tmp_path, None, "python (pid {})".format, cache, lambda: INSTALLED, settle_seconds=0.0)
        faults = [finding for finding in findings if finding.level is not Level.OK]
        return [f"{finding.level} {finding.subject}: {finding.fact}" for finding in faults] or ["ok"]

    same_texts("faults_of_gpus", {name: found(name) for name in SCENARIOS})
