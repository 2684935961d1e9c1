"""The rehearsal for a first day on a GPU, as far as it goes without one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def rehearsed(folder: Path, *steps: str) -> str:
    environment = os.environ | {"P": sys.executable, "OUT": str(folder), "ON": "cpu"}
    command = ["bash", str(ROOT / "tools" / "gpu_rehearsal.sh"), *steps]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def test_each_step_says_what_it_expects(tmp_path: Path) -> None:
    lines = rehearsed(tmp_path, "--list").splitlines()
    assert len(lines) >= 2 * 15
    assert all(line.startswith("             expected: ") for line in lines[1::2])


def test_a_step_keeps_its_log_and_says_whether_that_was_expected(tmp_path: Path) -> None:
    text = rehearsed(tmp_path, "topology")
    assert re.fullmatch(rf"topology +\d+ s  as expected \(exit status 0\)  {tmp_path}/topology\.log\n", text)
    assert (tmp_path / "summary.txt").read_text() == text
