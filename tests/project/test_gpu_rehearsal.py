"""The rehearsal for a first day on a GPU, as far as it goes without one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def rehearsed(folder: Path, *steps: str, status: int = 0) -> str:
    environment = os.environ | {"P": sys.executable, "OUT": str(folder), "ON": "cpu"}
    command = ["bash", str(ROOT / "tools" / "gpu_rehearsal.sh"), *steps]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def test_each_step_says_what_it_expects(tmp_path: Path) -> None:
    lines = rehearsed(tmp_path, "--list").splitlines()
    assert len(lines) >= 2 * 20
    assert all(line.startswith("                  expected: status ") for line in lines[1::2])


def test_no_call_takes_longer_than_a_quarter_of_an_hour(tmp_path: Path) -> None:
    seconds = dict.fromkeys("1234", 0)
    for line in rehearsed(tmp_path, "--list").splitlines()[::2]:
        seconds[line[0]] += int(line.split()[2])
    assert max(seconds.values()) <= 900


def test_a_step_keeps_its_log_and_says_whether_that_was_expected(tmp_path: Path) -> None:
    text = rehearsed(tmp_path, "topology")
    assert re.fullmatch(rf"topology +\d+ s  as expected \(exit status 0\)  {tmp_path}/topology\.log\n", text)
    assert (tmp_path / "summary.txt").read_text() == text


def test_a_step_whose_log_lacks_what_it_should_have_is_named(tmp_path: Path) -> None:
    text = rehearsed(tmp_path, "trace", status=1)  # nothing was traced
    assert "NOT as expected: no line has /[.]xplane[.]pb$/ (exit status 1)" in text


def test_a_file_of_all_that_was_kept_is_made(tmp_path: Path) -> None:
    rehearsed(tmp_path / "out", "record")
    with tarfile.open(tmp_path / "out.tgz") as archive:
        assert "./record.log" in archive.getnames()
