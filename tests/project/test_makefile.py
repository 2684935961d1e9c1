"""What `make` says of a Python that can't be used, when it asks for GPUs, and what it then measures."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[2] / "Makefile"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


def said(folder: Path, python: str) -> str:
    command = ["make", "-f", str(MAKEFILE), f"PYTHON={python}", ".venv/bin/python"]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode != 0
    return done.stdout


def played(folder: Path, script: str, name: str = "played_python") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_python_that_is_not_there_is_told_as_that(tmp_path: Path) -> None:
    assert "there is no Python that runs at /nonexistent;" in said(tmp_path, "/nonexistent")


def test_an_old_python_is_told_with_its_version(tmp_path: Path) -> None:
    old = played(tmp_path, '[ "$1" = -V ] && { echo Python 2.7.18 >&2; exit 0; }; exit 1')
    assert f"needs Python 3.11 or newer, and {old} is Python 2.7.18;" in said(tmp_path, old)


def asked(folder: Path, *arguments: str) -> str:
    """What make says that it would do, with what is `played` in the folder before all else."""
    # A make that runs these tests must not hand its own variables on.
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "ARGS"))}
    environment = outside | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    for needed in ("pyproject.toml", "constraints.txt"):
        (folder / needed).touch()
    command = ["make", "-n", "-f", str(MAKEFILE), *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout


@pytest.mark.parametrize(("goal", "asks"), [("perf", True), ("baselines", True), ("lint", False), ("check", False)])
def test_only_what_runs_on_gpus_asks_for_them(tmp_path: Path, goal: str, asks: bool) -> None:
    played(tmp_path, f"touch {tmp_path}/it-was-asked", "nvidia-smi")
    asked(tmp_path, goal)
    assert (tmp_path / "it-was-asked").exists() is asks


TWO_GPUS = "echo 'GPU 0: A (UUID: GPU-0)'; echo 'GPU 1: A (UUID: GPU-1)'"
FAILS = "exit 9"


@pytest.mark.parametrize(
    ("smi", "arguments", "said", "selection"),
    [
        (TWO_GPUS, [], "make: measuring 2 NVIDIA GPU(s)", '-m "gpu" -k '),
        (TWO_GPUS, ["perf", "ARGS=-v"], "make: measuring 2 NVIDIA GPU(s)", '-m "gpu"  -v'),
        (TWO_GPUS, ["perf", "GPU=0"], "make: measuring the CPU", '-m "cpu and not slow"'),
        (TWO_GPUS, ["baselines"], "make: measuring 2 NVIDIA GPU(s)", '-m "gpu" --update-baselines'),
        (FAILS, ["perf", "NVIDIACTL=/nonexistent"], "make: measuring the CPU", '-m "cpu and not slow"'),
    ],
    ids=["GPUs", "all on GPUs", "the CPU by choice", "baselines", "the CPU"],
)
def test_make_says_what_it_measures(tmp_path: Path, smi: str, arguments: list[str], said: str, selection: str) -> None:
    played(tmp_path, smi, "nvidia-smi")
    text = asked(tmp_path, *arguments)
    assert (said in text, f"pytest perf_tests {selection}" in text) == (True, True), text


def test_the_quick_selection_and_the_download_are_announced(tmp_path: Path) -> None:
    played(tmp_path, TWO_GPUS, "nvidia-smi")
    text = asked(tmp_path)
    assert "make: a quick selection of perf_tests, about 5 minutes; all of them: make perf ARGS=-v" in text
    assert "about 3 GB to download" in text
    assert "quick selection" not in asked(tmp_path, "perf", "ARGS=-v") + asked(tmp_path, "baselines")


def test_a_driver_that_shows_no_gpu_stops_make_instead_of_measuring_the_cpu(tmp_path: Path) -> None:
    played(tmp_path, FAILS, "nvidia-smi")
    (tmp_path / "nvidiactl").touch()
    text = asked(tmp_path, "perf", f"NVIDIACTL={tmp_path}/nvidiactl")
    assert ("nvidiactl exists, but nvidia-smi shows no GPU" in text, "pytest perf_tests" in text) == (True, False)


def test_on_arm_make_installs_no_cuda_beside_a_tensorflow_for_cpus(tmp_path: Path) -> None:
    played(tmp_path, TWO_GPUS, "nvidia-smi")
    text = asked(tmp_path, "perf", "MACHINE=aarch64")
    assert ("no TensorFlow for GPUs on aarch64" in text, "pip install" in text) == (True, False)
    assert "make: measuring the CPU" in asked(tmp_path, "perf", "GPU=0", "MACHINE=aarch64")


def test_a_pip_that_may_be_too_old_for_groups_is_replaced_first(tmp_path: Path) -> None:
    """Python 3.11's venv brings pip 23, which does not know --group."""
    lines = asked(tmp_path, "lint", "UV=").splitlines()
    assert any(re.search(r"pip install .*-c constraints\.txt pip && .* --group dev$", line) for line in lines)
    assert "constraints.txt pip &&" not in asked(tmp_path, "lint", "UV=uv")


def test_the_quick_selection_is_at_most_six_tests_of_the_suite(tmp_path: Path) -> None:
    found = re.search(r'-k "([^"]+)"', selection_of(tmp_path))
    assert found is not None
    command = [sys.executable, "-m", "pytest", "perf_tests", "-m", "gpu", "-k", found[1], "--collect-only", "-q"]
    text = subprocess.run(command, cwd=MAKEFILE.parent, capture_output=True, text=True, check=False).stdout
    assert sorted(re.findall(r"::(\w+\[.*\])", text)) == [
        "test_bert_base[device-mixed_float16-1]",
        "test_resnet50_synthetic[resnet50-b64-parameter_server-device-1]",
        *(f"test_resnet50_synthetic[resnet50-b64-replicated-device-{gpus}]" for gpus in (1, 2, 4, 8)),
    ]


def selection_of(folder: Path) -> str:
    played(folder, TWO_GPUS, "nvidia-smi")
    return asked(folder)
