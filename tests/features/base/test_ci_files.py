"""What CI systems run for a pull request: the steps of action.yml, and the GitLab component."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.inner import Project
from tests.helpers.repositories import ONE_READING, Repository, git

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent


class Runner:
    """A CI runner with a clone whose branch is slower than its origin's main."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.upstream = Repository(project)
        self.upstream.git("switch", "--quiet", "--create", "slower")
        self.upstream.cost(0.012)
        self.upstream.commit("slower")
        self.clone = folder / "clone"
        self.upstream.git("clone", "--quiet", str(project.folder), str(self.clone))
        self.temporary = folder / "temporary"

    def run(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return in_ci(self.clone, script, **variables)


def in_ci(folder: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script as GitHub runs `shell: bash`."""
    left_out = ("TFPERF_", "GITHUB_", "PYTEST_", "CI_")
    ours = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=ours | {"PATH": f"{BIN}:{os.environ['PATH']}"} | variables,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


@pytest.fixture
def runner(project: Project, tmp_path: Path) -> Runner:
    return Runner(project, tmp_path)


def action() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "action.yml").read_text()))


def filled(value: str, runner: Runner, **inputs: str) -> str:
    """A value of the action as GitHub gives it to a step."""
    known = {name: str(one.get("default", "")) for name, one in action()["inputs"].items()} | inputs
    for name, text in known.items():
        value = value.replace(f"${{{{ inputs.{name} }}}}", text)
    return value.replace("${{ runner.temp }}", str(runner.temporary))


def test_the_steps_of_the_action_compare_report_and_comment(runner: Runner) -> None:
    summary = runner.temporary.parent / "summary.md"
    _, measure, comment, keep = action()["runs"]["steps"]
    inputs = {"base": "origin/main", "arguments": "\n".join(ONE_READING), "marks": "cpu"}
    environment = {name: filled(value, runner, **inputs) for name, value in measure["env"].items()}
    done = runner.run(measure["run"], **environment, GITHUB_STEP_SUMMARY=str(summary), GITHUB_ACTIONS="true")
    assert done.returncode == 1, done.stdout
    assert "1 of 1 throughput test regressed" in summary.read_text()
    assert sorted(path.name for path in Path(filled(keep["with"]["path"], runner)).iterdir()) == [
        "comment.md",
        "throughput.html",
        "throughput.xml",
    ]
    environment = {name: filled(value, runner, token="") for name, value in comment["env"].items()}
    said = runner.run(comment["run"], **environment, GITHUB_REPOSITORY="ada/nets")
    assert (said.returncode, "no comment, because this job is not of a pull request" in said.stdout) == (0, True)


def test_no_step_of_the_action_puts_an_input_into_a_script() -> None:
    scripts = [step["run"] for step in action()["runs"]["steps"] if "run" in step]
    assert [script for script in scripts if "${{" in script] == []


def gitlab_job(**inputs: str) -> tuple[dict[str, Any], str]:
    """The job of the GitLab component, and its script with these inputs."""
    specification, jobs = yaml.safe_load_all((ROOT / "templates" / "against-base.yml").read_text())
    (job,) = jobs.values()
    given = {name: one["default"] for name, one in specification["spec"]["inputs"].items()}
    script = "\n".join(job["script"])
    for name, value in (given | {"install": "true"} | inputs).items():
        script = script.replace(f"$[[ inputs.{name} ]]", value)
    return job, script


def test_the_commands_of_the_gitlab_component_compare(runner: Runner) -> None:
    job, script = gitlab_job(arguments=" ".join(ONE_READING))
    variables = {name: value.replace("$CI_PROJECT_DIR", str(runner.clone)) for name, value in job["variables"].items()}
    done = runner.run(script, **variables, CI_MERGE_REQUEST_TARGET_BRANCH_NAME="main")
    assert done.returncode == 1, done.stdout
    assert "| REGRESSED | " in (runner.clone / "comment.md").read_text()
    assert (runner.clone / "throughput.html").exists()
    assert runner.run("\n".join(job["after_script"])).returncode == 0


def test_the_commands_of_the_file_of_init_compare(runner: Runner) -> None:
    made = [sys.executable, "-m", "pytest_tfperf.cli", "init", str(runner.clone), "--ci=github"]
    assert subprocess.run(made, check=False).returncode == 0
    workflow = yaml.safe_load(next(runner.clone.glob(".github/workflows/perf.yml")).read_text())
    checkout, _, install, measure, comment, _ = workflow["jobs"]["against-base"]["steps"]
    assert (checkout["with"]["fetch-depth"], install["run"]) == (0, "pip install -r requirements.txt")
    options = f"{' '.join(ONE_READING)} -k test_loop"  # the test of init's own model is compared below
    done = runner.run(measure["run"], **measure["env"], GITHUB_BASE_REF="main", PYTEST_ADDOPTS=options)
    assert done.returncode == 1, done.stdout
    assert "| REGRESSED | " in (runner.clone / "comment.md").read_text()
    assert (runner.clone / "throughput.html").exists()
    assert "no comment, because" in runner.run(comment["run"], GITHUB_TOKEN="").stdout


def test_the_file_of_init_needs_no_action_of_an_unknown_owner(tmp_path: Path) -> None:
    made = [sys.executable, "-m", "pytest_tfperf.cli", "init", str(tmp_path), "--ci=github"]
    assert subprocess.run(made, check=False).returncode == 0
    texts = [path.read_text() for path in tmp_path.glob(".github/workflows/*.yml")]
    used = {line.split()[2] for text in texts for line in text.splitlines() if "- uses:" in line}
    assert {one.partition("/")[0] for one in used} == {"actions"}


# A project that `tfperf init` has just set up


class Fresh:
    """A clone of a project in which `tfperf init` was run on a branch, and the commands of its pull requests' job."""

    def __init__(self, folder: Path) -> None:
        origin = folder / "origin"
        origin.mkdir()
        git(origin, "init", "--quiet", "--initial-branch=main")
        self.origin = origin
        self.commit("before")
        git(origin, "switch", "--quiet", "--create", "branch")
        made = [sys.executable, "-m", "pytest_tfperf.cli", "init", str(origin), "--ci=github"]
        assert subprocess.run(made, check=False, stdout=subprocess.DEVNULL).returncode == 0
        self.commit("tfperf init")

    def commit(self, subject: str) -> None:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
        git(self.origin, "add", ".")
        git(self.origin, *who, "commit", "--quiet", "--allow-empty", "--message", subject)

    def pull_request(self, clone: Path) -> subprocess.CompletedProcess[str]:
        """Run the job of a pull request of the branch."""
        git(self.origin, "clone", "--quiet", str(self.origin), str(clone))
        workflow = yaml.safe_load(next(clone.glob(".github/workflows/perf.yml")).read_text())
        (measure,) = (
            step for step in workflow["jobs"]["against-base"]["steps"] if "--tfperf-base" in step.get("run", "")
        )
        quick = "-o tfperf_steps=5 -o tfperf_warmup_steps=1 -o tfperf_tolerance=0.5 -o tfperf_busy=1"
        variables = measure["env"] | {"GITHUB_BASE_REF": "main", "PYTEST_ADDOPTS": quick}
        return in_ci(clone, measure["run"], **variables)


def test_the_pull_request_that_adds_the_tests_is_green_and_says_why(tmp_path: Path) -> None:
    done = Fresh(tmp_path).pull_request(tmp_path / "clone")
    assert done.returncode == 0, done.stdout
    assert "main has no perf_tests yet, so there is nothing to compare with" in done.stdout


@pytest.mark.parametrize("tests", ["perf_tests", "perf_tests/", "perf_tests/test_speed.py::test_training_speed"])
@pytest.mark.parametrize("moved", [False, True], ids=["first", "another was first"])
def test_the_action_and_the_gitlab_component_are_green_there_too(tests: str, moved: bool, tmp_path: Path) -> None:
    fresh, clone = Fresh(tmp_path), tmp_path / "clone"
    if moved:  # main has the tests since this branch left it
        git(fresh.origin, "switch", "--quiet", "main")
        (fresh.origin / "perf_tests").mkdir()
        (fresh.origin / "perf_tests" / "test_speed.py").write_text("def test_training_speed(): pass")
        fresh.commit("another's tests")
        git(fresh.origin, "switch", "--quiet", "branch")
    git(fresh.origin, "clone", "--quiet", str(fresh.origin), str(clone))
    script = next(step["run"] for step in action()["runs"]["steps"] if "--tfperf-base" in step.get("run", ""))
    variables = {"TESTS": tests, "BASE": "origin/main", "TFPERF_COMMENT": str(tmp_path / "new" / "comment.md")}
    for done in (
        in_ci(clone, script, **variables, MARKS="", ARGUMENTS="", JUNIT="x.xml"),
        in_ci(clone, gitlab_job(tests=tests)[1], CI_MERGE_REQUEST_TARGET_BRANCH_NAME="main"),
    ):
        assert done.returncode == 0, done.stdout
        assert f"has no {tests} yet, so there is nothing to compare with" in done.stdout


def test_the_pull_requests_after_it_compare_the_projects_own_model(tmp_path: Path) -> None:
    fresh = Fresh(tmp_path)
    git(fresh.origin, "branch", "--force", "main", "branch")
    fresh.commit("something else")
    done = fresh.pull_request(tmp_path / "clone")
    assert done.returncode == 0, done.stdout
    assert "1 of 1 throughput test passed" in (tmp_path / "clone" / "comment.md").read_text()
