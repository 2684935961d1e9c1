"""What `tfperf init` writes works as written: the test is measured, and the CI file's commands gate it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml
from inner import Project
from patience import SESSION_SECONDS

from pytest_tfperf import cli

WORKLOAD = "resnet20-b8-replicated-device"


def test_the_first_test_passes_under_the_commands_of_the_ci_file(tmp_path: Path) -> None:
    with Project(tmp_path / "project") as project:
        assert cli.main(["init", str(project.folder), "--ci=gitlab"]) == 0
        project.baseline(WORKLOAD, reference=0.001)  # however busy this machine is, it is faster
        job = yaml.safe_load((project.folder / ".gitlab-ci.yml").read_text())["throughput"]
        variables = {name: str(value) for name, value in job["variables"].items()}
        commands = job["script"]
        assert [command.split()[0] for command in commands] == ["tfperf", "tfperf", "pytest"]
        done = subprocess.run(
            ["bash", "-ec", "\n".join(commands)],
            cwd=project.folder,
            # CI has no GPU for us: the programs of this environment, and a home of its own.
            env=os.environ
            | variables
            | {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=SESSION_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"IMPROVED  {WORKLOAD}" in done.stdout
        assert (project.folder / job["artifacts"]["reports"]["junit"]).exists()
        assert [path for path in job["artifacts"]["paths"] if not (project.folder / path).exists()] == []
        assert (tmp_path / ".cache" / "tfperf" / "history.sqlite").exists()
