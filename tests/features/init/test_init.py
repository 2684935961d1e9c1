"""What `tfperf init` writes works as written: the test is measured, and the CI file's commands gate it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pytest_tfperf import cli
from pytest_tfperf.core.exit_status import EXIT_MACHINE, EXIT_NOT_MEASURED, EXIT_REGRESSED
from pytest_tfperf.features import init
from pytest_tfperf.features.init import Framework
from tests.helpers.inner import Project
from tests.helpers.patience import SESSION_SECONDS

WORKLOAD = "speed_models:small_cnn-b32-replicated-device"
PROGRAM = """
    import sys
    from pytest_tfperf import Command

    def test_program(throughput, on):
        command = [sys.executable, "-c", "print('9 examples/s\\\\n' * 9)"]
        throughput.check(Command(command, name="program", reads=RATES_TO_THE_END), on=on)
"""


def run(
    project: Project, commands: list[str], variables: dict[str, str], home: Path
) -> subprocess.CompletedProcess[str]:
    """Commands of a CI file with the programs of this environment, and a home of its own."""
    ours = {"HOME": str(home), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-ec", "\n".join(commands)],
        cwd=project.folder,
        env=os.environ | variables | ours,
        capture_output=True,
        text=True,
        timeout=SESSION_SECONDS,
        check=False,
    )


@pytest.mark.slow
def test_the_first_test_passes_under_the_commands_of_the_ci_file(tmp_path: Path) -> None:
    with Project(tmp_path / "project") as project:
        assert cli.main(["init", str(project.folder), "--ci=gitlab"]) == 0
        project.baseline(WORKLOAD, value=0.001)  # however busy this machine is, it is faster
        job = yaml.safe_load((project.folder / ".gitlab-ci.yml").read_text())["throughput"]
        variables = {name: str(value) for name, value in job["variables"].items()}
        commands = job["script"]
        assert [command.split()[0] for command in commands] == ["tfperf", "tfperf", "pytest"]
        done = run(project, commands, variables, tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "IMPROVED  small_cnn-b32-replicated-device" in done.stdout
        assert (project.folder / job["artifacts"]["reports"]["junit"]).exists()
        assert [path for path in job["artifacts"]["paths"] if not (project.folder / path).exists()] == []
        assert (tmp_path / ".cache" / "tfperf" / "history.sqlite").exists()


@pytest.mark.slow
def test_the_commands_of_githubs_nightly_job_gate_a_program(tmp_path: Path) -> None:
    with Project(tmp_path / "project") as project:
        assert cli.main(["init", str(project.folder), "--ci=github"]) == 0
        project.tests(PROGRAM, "perf_tests/test_training_speed.py")
        project.baseline("program", unit="examples", value=1e6)
        job = yaml.safe_load((project.folder / ".github/workflows/throughput.yml").read_text())["jobs"]["throughput"]
        commands = [step["run"] for step in job["steps"] if "run" in step and not step.get("continue-on-error")]
        done = run(project, commands, job["env"], tmp_path)
        assert done.returncode == EXIT_REGRESSED, done.stdout + done.stderr
        uploads = [step for step in job["steps"] if "upload-artifact" in step.get("uses", "")]
        assert [(one["if"], list(project.folder.glob(one["with"]["path"])) != []) for one in uploads] == [
            ("always()", True)
        ]


@pytest.mark.parametrize("framework", [Framework.PYTORCH, Framework.JAX, Framework.NONE])
def test_the_program_of_another_framework_is_measured(
    framework: Framework, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip({Framework.PYTORCH: "torch", Framework.JAX: "jax"}.get(framework, "numpy"))
    monkeypatch.setattr(init, "framework_of", lambda _: framework)
    with Project(tmp_path / "project", trains=False) as project:
        assert cli.main(["init", str(project.folder)]) == 0
        finished = project.run("perf_tests", "-o", "tfperf_steps=5")
        assert finished.status == 0, finished.text
        assert finished.kinds == {"test_training_speed": "passed"}
        measured = project.measured("test_training_speed").throughput
        assert (measured.unit, measured.examples_per_step) == ("images", 64)


def test_only_a_regression_fails_the_nightly_pipeline_of_gitlab(tmp_path: Path) -> None:
    assert cli.main(["init", str(tmp_path), "--ci=gitlab"]) == 0
    job = yaml.safe_load((tmp_path / ".gitlab-ci.yml").read_text())["throughput"]
    assert job["allow_failure"]["exit_codes"] == [EXIT_NOT_MEASURED, EXIT_MACHINE]
