"""What `tfperf doctor` finds of the stand-in's machines, through the real pynvml."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pytest_tfperf.features.doctor import framework_fitness, gpu_fitness
from pytest_tfperf.features.doctor.fitness import Check, Finding, Level
from pytest_tfperf.features.doctor.framework_fitness import (
    Build,
    Framework,
    Libraries,
    software_findings,
    start_of_cuda,
)
from pytest_tfperf.features.doctor.gpu_fitness import gpu_findings
from tests.helpers.expected import SameTexts
from tests.helpers.nvml_scenarios import SCENARIOS
from tests.helpers.stand_in_libraries import NvmlScenario

TF_2_21 = Build((12, 5), ((6, 0), (7, 0), (8, 0), (8, 9)), ((9, 0),))  # its build_info.py
INSTALLED = Framework(
    "TensorFlow", (12, 5), "", "", TF_2_21, Libraries(cudnn=(9, 28))
)  # what `pip install tensorflow[and-cuda]` takes today


STARTS = Finding(Check.CUDA, Level.OK, "cuInit succeeds")


@pytest.fixture(autouse=True)
def _played(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process on CPUs 0 to 31 with one framework, in which CUDA starts, and whose pids NVML gives."""
    monkeypatch.setattr(gpu_fitness, "_SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(gpu_fitness, "gives_our_pids", lambda root: True)
    monkeypatch.setattr(gpu_fitness, "process_name", "python (pid {})".format)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(32)))
    monkeypatch.setattr(framework_fitness, "installed", lambda: [INSTALLED])
    monkeypatch.setenv("CUDA_CACHE_PATH", "/home/me/.nv/ComputeCache")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_each_machines_faults_are_named(
    nvml_scenario: NvmlScenario, tmp_path: Path, same_texts: SameTexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framework_fitness, "start_of_cuda", lambda: STARTS)

    def found(name: str) -> list[str]:
        nvml_scenario(name)
        findings = gpu_findings(tmp_path, of_software=software_findings)
        faults = [finding for finding in findings if finding.level is not Level.OK]
        return [f"{finding.level} {finding.subject}: {finding.fact}" for finding in faults] or ["ok"]

    same_texts("faults_of_gpus", {name: found(name) for name in SCENARIOS})


def test_cuda_that_does_not_start_is_named_with_the_next_step(
    nvml_scenario: NvmlScenario, monkeypatch: pytest.MonkeyPatch, same_texts: SameTexts
) -> None:
    def found(code: int) -> list[str]:
        monkeypatch.setenv("FAKE_CUINIT", str(code))
        finding = start_of_cuda()
        return [f"{finding.level} {finding.subject}: {finding.fact}", finding.fix]

    nvml_scenario("h100_570")
    same_texts("starts_of_cuda", {str(code): found(code) for code in (0, 34, 100, 101, 802, 803, 804, 999, 1)})


def test_cuda_that_hangs_is_not_waited_for(nvml_scenario: NvmlScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml_scenario("h100_570")
    monkeypatch.setenv("FAKE_CUINIT", "hang")
    monkeypatch.setattr(framework_fitness, "_SECONDS_TO_START", 1.0)
    finding = start_of_cuda()
    assert (finding.level, finding.fact) == (Level.UNFIT, "cuInit did not return within 1 s")


def test_a_driver_without_libcuda_is_unfit(monkeypatch: pytest.MonkeyPatch) -> None:
    if (
        subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"], check=False).returncode
        == 0
    ):
        pytest.skip("this machine has a libcuda.so.1")
    finding = start_of_cuda()
    assert finding.level is Level.UNFIT
    assert finding.fact.startswith("OSError: libcuda.so.1: ")


def test_where_cuda_does_not_start_no_framework_is_asked(
    nvml_scenario: NvmlScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml_scenario("h100_570")
    broken = Finding(Check.CUDA, Level.UNFIT, "cuInit fails with 802")
    monkeypatch.setattr(framework_fitness, "start_of_cuda", lambda: broken)
    found = gpu_findings(tmp_path, of_software=software_findings)
    assert broken in found
    assert not {Check.FRAMEWORK, Check.GPU_CODE} & {finding.subject for finding in found}


def test_a_throttle_reason_that_one_look_shows_is_no_fault(
    nvml_scenario: NvmlScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_fitness, "_SETTLE_SECONDS", 1.0)
    hot, cool = {"gpu.0.clock_reasons": "0x20"}, {"gpu.0.clock_reasons": "0x1"}

    def level(*looks: dict[str, str]) -> Level:
        nvml_scenario("h100_570", looks[0])
        later = threading.Timer(0.3, nvml_scenario, ("h100_570", looks[1]))
        later.start()
        found = gpu_findings(tmp_path)
        later.join()
        return next(finding.level for finding in found if finding.subject is Check.GPU_CLOCKS)

    assert (level(hot, hot), level(hot, cool)) == (Level.UNFIT, Level.OK)


@pytest.mark.parametrize(
    ("cpus", "levels"),
    [(range(64), [Level.WARNING, Level.WARNING]), (range(32), [Level.OK, Level.WARNING])],
    ids=["both sockets", "one socket"],
)
def test_a_run_that_may_land_on_the_socket_far_from_its_gpu_is_a_warning(
    nvml_scenario: NvmlScenario,
    tmp_path: Path,
    cpus: range,
    levels: list[Level],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(cpus))
    for number, bus in enumerate(("01", "21", "41", "61")):
        device = tmp_path / f"sys/bus/pci/devices/0000:{bus}:00.0"
        device.mkdir(parents=True)
        (device / "numa_node").write_text(str(number // 2))
        (device / "local_cpulist").write_text("0-31" if number < 2 else "32-63")
    nvml_scenario("4x_rtx_4090")
    found = gpu_findings(tmp_path)
    on_nodes = [finding for finding in found if finding.subject is Check.NUMA]
    assert [finding.level for finding in on_nodes] == levels
    assert on_nodes[-1].fact == "GPUs 2, 3: near CPUs 32-63, and runs may use 32 CPUs of another socket"
