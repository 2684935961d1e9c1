"""What `make` says of a Python that can't be used."""

from __future__ import annotations

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


def played(folder: Path, script: str) -> str:
    path = folder / "played_python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_python_that_is_not_there_is_told_as_that(tmp_path: Path) -> None:
    assert "there is no Python that runs at /nonexistent;" in said(tmp_path, "/nonexistent")


def test_an_old_python_is_told_with_its_version(tmp_path: Path) -> None:
    old = played(tmp_path, '[ "$1" = -V ] && { echo Python 2.7.18 >&2; exit 0; }; exit 1')
    assert f"needs Python 3.11 or newer, and {old} is Python 2.7.18;" in said(tmp_path, old)
