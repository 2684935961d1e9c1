"""What `tfperf init` writes works as written: the test is measured, and the CI file's commands gate it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_tfperf import cli
from pytest_tfperf.core.exit_status import EXIT_MACHINE, EXIT_NOT_MEASURED, EXIT_REGRESSED
from pytest_tfperf.features.init import command as init
from pytest_tfperf.features.init.command import Framework
from pytest_tfperf.stores.history import History
from tests.helpers.inner import ANY_THROUGHPUT, Project
from tests.helpers.patience import SESSION_SECONDS
from tests.helpers.repositories import git

WORKLOAD = "speed_models:small_cnn-b32-replicated-device"
PROGRAM = """
    import sys
    from pytest_tfperf import Command

    def test_program(throughput, on):
        command = [sys.executable, "-c", "print('9 examples/s\\\\n' * 9)"]
        throughput.check(Command(command, name="program", reads=RATES_TO_THE_END), on=on)
"""


def run(folder: Path, commands: list[str], variables: dict[str, str], home: Path) -> subprocess.CompletedProcess[str]:
    """Commands of a CI file with the programs of this environment, and a home of its own."""
    ours = {"HOME": str(home), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-ec", "\n".join(commands)],
        cwd=folder,
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
        assert [command.split()[0] for command in commands] == ["tfperf", "tfperf", "tfperf", "pytest"]
        del variables["TFPERF_HISTORY_URL"]  # this project has no origin
        done = run(project.folder, commands, variables, tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "IMPROVED  small_cnn-b32-replicated-device" in done.stdout
        run(project.folder, job["after_script"], variables, tmp_path)
        assert (project.folder / job["artifacts"]["reports"]["junit"]).exists()
        assert [path for path in job["artifacts"]["paths"] if not (project.folder / path).exists()] == []
        assert (tmp_path / ".cache" / "tfperf" / "history.sqlite").exists()


@pytest.mark.slow
def test_the_commands_of_githubs_nightly_job_gate_a_program(tmp_path: Path) -> None:
    with Project(tmp_path / "project") as project:
        assert cli.main(["init", str(project.folder), "--ci=github"]) == 0
        project.tests(PROGRAM, "perf_tests/test_training_speed.py")
        project.baseline("program", unit="examples", value=1e6)
        job = yaml.safe_load((project.folder / ".github/workflows/perf.yml").read_text())["jobs"]["throughput"]
        variables = {"TFPERF_HTML": job["env"]["TFPERF_HTML"], "RUNNER_TEMP": str(tmp_path)}
        commands = [step["run"] for step in job["steps"] if "run" in step and not step.get("continue-on-error")]
        done = run(project.folder, commands, variables, tmp_path)
        assert done.returncode == EXIT_REGRESSED, done.stdout + done.stderr
        (site,) = [step for step in job["steps"] if step.get("id") == "site"]
        assert run(project.folder, [site["run"]], variables, tmp_path).returncode == 0
        assert (tmp_path / "site" / "index.html").exists()
        uploads = [step for step in job["steps"] if "upload-artifact" in step.get("uses", "")]
        assert [(one["if"], list(project.folder.glob(one["with"]["path"])) != []) for one in uploads] == [
            ("always()", True)
        ]


@pytest.mark.slow
def test_a_new_runner_each_night_has_the_history_of_the_nights_before(tmp_path: Path) -> None:
    with Project(tmp_path / "project") as project:
        job = jobs_of(project.folder)["throughput"]
        (project.folder / "perf_tests" / "test_speed.py").unlink()
        project.tests(PROGRAM, "perf_tests/test_training_speed.py")
        project.baseline("program", unit="examples", **ANY_THROUGHPUT)
        git(project.folder, "init", "--quiet", "--initial-branch=main")
        git(project.folder, "add", ".")
        git(project.folder, "commit", "--quiet", "--message=first")
    git(tmp_path, "clone", "--quiet", "--bare", "project", "origin.git")
    taken = "history pull", "pytest", "history push", "report"
    steps = [step for step in job["steps"] if any(word in step.get("run", "") for word in taken)]
    assert len(steps) == len(taken)
    for night in ("first", "second"):
        home, checkout = tmp_path / night, tmp_path / night / "checkout"
        home.mkdir()
        git(home, "clone", "--quiet", str(tmp_path / "origin.git"), "checkout")
        for step in steps:
            done = run(checkout, [step["run"]], job["env"] | {"CI": "true", "RUNNER_TEMP": str(home)}, home)
            assert done.returncode == 0, done.stdout + done.stderr
    sessions = {m.session for m in History(home / ".cache" / "tfperf" / "history.sqlite").measurements()}
    assert len(sessions) == 2
    assert (home / "site" / "index.html").exists()


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


def jobs_of(root: Path) -> dict[str, dict[str, Any]]:
    assert cli.main(["init", str(root), "--ci=github"]) == 0
    jobs: dict[str, dict[str, Any]] = yaml.safe_load((root / ".github/workflows/perf.yml").read_text())["jobs"]
    return jobs


def test_each_job_on_github_may_write_what_it_has_to_and_nothing_else(tmp_path: Path) -> None:
    assert {name: job["permissions"] for name, job in jobs_of(tmp_path).items()} == {
        "throughput": {"contents": "write"},
        "page": {"pages": "write", "id-token": "write"},
        "against-base": {"contents": "read", "pull-requests": "write"},
    }


def test_only_the_nightly_checkout_keeps_a_token(tmp_path: Path) -> None:
    kept = {
        name: step["with"]["persist-credentials"]
        for name, job in jobs_of(tmp_path).items()
        for step in job["steps"]
        if "checkout" in step.get("uses", "")
    }
    assert kept == {"throughput": True, "against-base": False}


def test_a_red_night_publishes_its_page_and_one_without_a_page_does_not(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path)
    assert jobs["page"]["if"] == "${{ !cancelled() && needs.throughput.outputs.site == 'success' }}"
    assert jobs["throughput"]["outputs"] == {"site": "${{ steps.site.outcome }}"}


def test_the_page_of_gitlab_is_published_after_a_red_night(tmp_path: Path) -> None:
    assert cli.main(["init", str(tmp_path), "--ci=gitlab"]) == 0
    jobs = yaml.safe_load((tmp_path / ".gitlab-ci.yml").read_text())
    assert [rule["when"] for rule in jobs["pages"]["rules"]] == ["always"]
    assert jobs["pages"]["artifacts"]["paths"] == ["public"]
    assert "public" in jobs["throughput"]["artifacts"]["paths"]
