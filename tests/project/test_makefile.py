"""What `make` says of a Python that can't be used, and when it asks for GPUs."""

from __future__ import annotations

import os
import shutil
import subprocess
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


def asked(folder: Path, goal: str) -> None:
    """Have make read the file and say what it would do, with what is `played` in the folder before all else."""
    environment = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    for needed in ("pyproject.toml", "constraints.txt"):
        (folder / needed).touch()
    subprocess.run(["make", "-n", "-f", str(MAKEFILE), goal], cwd=folder, env=environment, check=True)


@pytest.mark.parametrize(("goal", "asks"), [("perf", True), ("baselines", True), ("lint", False), ("clean", False)])
def test_only_what_runs_on_gpus_asks_for_them(tmp_path: Path, goal: str, asks: bool) -> None:
    played(tmp_path, f"touch {tmp_path}/it-was-asked", "nvidia-smi")
    asked(tmp_path, goal)
    assert (tmp_path / "it-was-asked").exists() is asks


def test_a_driver_that_hangs_does_not_hang_make(tmp_path: Path) -> None:
    played(tmp_path, f'echo "$@" > {tmp_path}/limited', "timeout")
    asked(tmp_path, "perf")
    assert (tmp_path / "limited").read_text() == "60 nvidia-smi -L\n"
