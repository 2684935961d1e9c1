"""What is run on a GPU that can be had for 15 minutes, as far as it goes with the stand-in for NVML and CUDA."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.helpers.stand_in_libraries import NvmlScenario

ROOT = Path(__file__).parents[2]
SCRIPT = str(ROOT / "tools" / "gpu_lease.sh")
SECONDS_OF_A_CALL = 600
PATIENCE = 4


def test_no_call_takes_longer_than_a_machine_allows() -> None:
    listed = subprocess.run(["bash", SCRIPT, "--list"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    calls = dict.fromkeys(("one", "tensorflow"), 0)
    for call, seconds in re.findall(r"^(\w+) +\w+ +(\d+) s  ", listed, re.MULTILINE):
        calls[call] += int(seconds)
    assert 0 < min(calls.values()) <= max(calls.values()) <= SECONDS_OF_A_CALL


def test_without_the_callers_folder_nothing_is_run() -> None:
    done = subprocess.run(
        ["bash", SCRIPT, "one"], cwd=ROOT, env=os.environ | {"OUT": ""}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, "OUT=: give the folder whose files come back\n")


@contextmanager
def a_gpu_in_use_by(call: subprocess.Popen[str], nvml_scenario: NvmlScenario) -> Iterator[None]:
    """NVML shows the programs that this process has started as using the GPU."""
    ended = threading.Event()

    def follow() -> None:
        shown: set[int] | None = None
        while not ended.wait(0.05):
            loops = {child.pid for child in _children(call.pid) if _is_loop(child)}
            if loops == shown:
                continue
            shown = loops
            use = {
                "gpu.0.utilization": 97 if loops else 0,
                "gpu.0.memory_used": (1 + 2 * len(loops)) << 30,
                "gpu.0.processes": ",".join(f"{pid}:{2 << 30}" for pid in loops),
                "gpu.0.process_utilization": ",".join(f"{pid}:97" for pid in loops),
            }
            nvml_scenario("h100_570", use)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def _is_loop(process: psutil.Process) -> bool:
    try:
        return any(word.endswith("gpu_loop.py") for word in process.cmdline()[1:3])
    except psutil.Error:
        return False


def called(results: Path, nvml_scenario: NvmlScenario, **variables: str) -> tuple[int, str]:
    """The exit status of call `one`, and what it printed, without PyTorch and on a machine that others use."""
    nvml_scenario("h100_570")
    (results / "torch.py").write_text("raise ImportError")
    environment = {"P": sys.executable, "OUT": str(results), "SCALE": "0.1", "STAND_IN": "1", "FAKE_CUINIT": "0"}
    environment |= {"PATIENCE": str(PATIENCE), "PYTHONPATH": str(results)}
    command = ["bash", SCRIPT, "one"]
    with subprocess.Popen(
        command, cwd=ROOT, env=os.environ | environment | variables, stdout=subprocess.PIPE, text=True
    ) as call:
        with a_gpu_in_use_by(call, nvml_scenario):
            text, _ = call.communicate(timeout=PATIENCE * SECONDS_OF_A_CALL)
        return call.returncode, text


@pytest.mark.slow
def test_the_first_call_goes_through_all_its_steps(tmp_path: Path, nvml_scenario: NvmlScenario) -> None:
    status, text = called(tmp_path, nvml_scenario)
    assert (status, "UNEXPECTED" in text) == (0, False), text
    with tarfile.open(tmp_path / "gpu-lease-one.tgz") as archive:
        assert {"./doctor.log", "./guard.log", "./nvml.txt"} <= set(archive.getnames())


@pytest.mark.slow
def test_a_step_that_fails_is_shown_with_the_end_of_its_log(tmp_path: Path, nvml_scenario: NvmlScenario) -> None:
    status, text = called(tmp_path, nvml_scenario, ONLY="doctor", FAKE_CUINIT="802")
    assert status == 1
    assert re.search(r"^UNEXPECTED doctor +\d+ s  status   8 .*cuInit fails with 802", text, re.MULTILINE | re.DOTALL)
