"""`tfperf` as it is installed, and its command `topology`; tests/unit/test_replay.py has `replay`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import SESSION_SECONDS

from pytest_tfperf import cli


def test_the_topology_of_this_machine_names_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["topology", "--json"])
    machine = json.loads(capsys.readouterr().out)["machine"]
    assert cli.main(["topology"]) == 0
    assert machine in capsys.readouterr().out


def test_the_command_is_installed() -> None:
    command = Path(sys.executable).with_name("tfperf")
    done = subprocess.run(
        [command, "topology", "--json"], capture_output=True, text=True, timeout=SESSION_SECONDS, check=True
    )
    assert json.loads(done.stdout)["version"] == 1


def test_a_reader_that_leaves_early_is_not_an_error() -> None:
    command = [sys.executable, "-m", "pytest_tfperf.cli", "topology", "--json"]
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as left:
        done = subprocess.run(
            command, stdout=left, stderr=subprocess.PIPE, timeout=SESSION_SECONDS, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")
