"""The workflows for GitHub run what the Makefile has, and what `.ci/run` checks, with actions pinned to a commit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.repositories import git

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WITH_ACTIONS = [*WORKFLOWS, ROOT / "action.yml", ROOT / "pytest_tfperf" / "features" / "init" / "github.yml"]


def goals(workflow: Path) -> set[str]:
    """What the workflow asks of make, without the marks of what was installed."""
    jobs: dict[str, dict[str, Any]] = yaml.safe_load(workflow.read_text())["jobs"]
    found: set[str] = set()
    for job in jobs.values():
        commands = [step["run"] for step in job["steps"] if step.get("run", "").startswith("make ")]
        matrix = job.get("strategy", {}).get("matrix", {})
        rows = matrix.get("include") or [{name: value} for name, values in matrix.items() for value in values]
        for command in commands:
            for row in rows or [{}]:
                given = re.sub(r"\$\{\{ matrix\.(\w+) \}\}", lambda name, row=row: row[name[1]], command)
                words = re.sub(r'"[^"]*"', "", given.partition("#")[0]).split()[1:]
                found |= {word for word in words if "=" not in word and "/" not in word}
    return found


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_make_has_what_a_workflow_asks_of_it(workflow: Path) -> None:
    rules = re.findall(r"^([a-z-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert goals(workflow) - {*rules} == set()


def test_what_must_hold_on_github_must_hold_for_ci_run() -> None:
    made = re.findall(r"make ([\w -]+)", (ROOT / ".ci" / "run").read_text())
    tried = {"test", *" ".join(made).split()}  # `test` is a part of `test-all`
    assert goals(ROOT / ".github" / "workflows" / "ci.yml") - tried == set()


def test_each_action_is_pinned_to_one_commit_with_its_version_beside_it() -> None:
    lines = [
        line
        for path in WITH_ACTIONS
        for line in re.findall(r"^ +(?:- )?uses: ([^.].*)$", path.read_text(), re.MULTILINE)
    ]
    assert [line for line in lines if re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line) is None] == []
    pins = set(lines)
    assert len({pin.partition("@")[0] for pin in pins}) == len(pins)


def test_the_action_has_the_inputs_that_its_own_check_gives_it() -> None:
    steps = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]["action"]["steps"]
    given = {name for step in steps if step.get("uses") == "./pytest-tfperf" for name in step["with"]}
    assert given
    assert given - yaml.safe_load((ROOT / "action.yml").read_text())["inputs"].keys() == set()


def test_the_sample_for_the_action_has_an_equal_and_a_slower_branch(tmp_path: Path) -> None:
    (tmp_path / "pytest-tfperf").mkdir()
    (tmp_path / "pytest-tfperf" / "README.md").touch()
    subprocess.run([ROOT / "tools" / "sample_repository.sh", tmp_path], check=True)
    changed = {name: git(tmp_path, "diff", "--unified=0", "main", name) for name in ("equal", "slower")}
    assert "+# as fast as before" in changed["equal"]
    assert "+SECONDS = 0.020" in changed["slower"]
    assert git(tmp_path, "status", "--porcelain") == ""


DIGEST = f"sha256:{'0a' * 32}"
READY = {
    "pyproject.toml": 'authors = [{ name = "Ada" }]\n',
    "Dockerfile": f"FROM a/b:1@{DIGEST}\n",
}


def played(folder: Path, name: str, script: str) -> dict[str, str]:
    """The environment in which this name is the script."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "GITHUB_REPOSITORY": "a/b"}


def may_be_published(folder: Path, files: dict[str, str], on_main: bool = True, runs: int = 1) -> str:
    """What the script says of a commit with these files, which ends with 0 exactly if it says nothing."""
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
    change = (*who, "commit", "--quiet", "--allow-empty", "--message", "a change")
    upstream, clone = folder / "upstream", folder / "clone"
    git(folder, "init", "--quiet", "--initial-branch=main", str(upstream))
    for name, content in files.items():
        (upstream / name).write_text(content)
    git(upstream, "add", ".")
    git(upstream, *change)
    git(folder, "clone", "--quiet", str(upstream), str(clone))
    if not on_main:
        git(clone, *change)
    asked = f'case "$*" in *"--commit $(git rev-parse HEAD) "*) echo {runs};; *) exit 9;; esac'
    environment = played(folder / "bin", "gh", asked)
    script = ROOT / "tools" / "may_be_published.sh"
    done = subprocess.run([script], cwd=clone, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (not done.stdout), done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("on_main", "runs", "said"),
    [(True, 1, ""), (False, 1, "is not on main: nothing is published"), (True, 0, "has not passed for")],
    ids=["green on main", "on a branch", "red"],
)
def test_only_a_commit_of_main_whose_ci_is_green_may_be_published(
    on_main: bool, runs: int, said: str, tmp_path: Path
) -> None:
    text = may_be_published(tmp_path, READY, on_main, runs)
    assert (said in text, bool(said)) == (True, bool(text))


OWNER = "OWNER"  # apart from what follows it: whoever publishes this replaces both together


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("README.md", f"[docs](https://{OWNER}.github.io/pytest-tfperf/)"),
        ("action.md", f"uses: {OWNER}/pytest-tfperf@v1"),
        ("pyproject.toml", 'authors = [{ name = "AUTHOR" }]'),
        ("pyproject.toml", 'email = "MAINTAINER@example.com"'),
        ("Dockerfile", "FROM a/b:1"),
    ],
)
def test_nothing_is_published_while_a_placeholder_is_left(file: str, content: str, tmp_path: Path) -> None:
    text = may_be_published(tmp_path, READY | {file: f"{content}\n"})
    assert f"{file}:1:{content}\n" in text
    assert "nothing is published" in text


def test_the_base_image_is_pinned_to_the_digest_of_today(tmp_path: Path) -> None:
    script = tmp_path / "tools" / "pin_base_image.sh"
    script.parent.mkdir()
    shutil.copy(ROOT / "tools" / "pin_base_image.sh", script)
    dockerfile = tmp_path / "Dockerfile"
    for before in ("FROM a/b:1", f"FROM a/b:1@{DIGEST.replace('a', 'b')}"):
        dockerfile.write_text(f"# The base.\n{before}\nRUN true\n")
        environment = played(tmp_path / "bin", "docker", f'case "$*" in *" a/b:1 "*) echo {DIGEST};; *) exit 9;; esac')
        subprocess.run([script], env=environment, check=True)
        assert dockerfile.read_text() == f"# The base.\nFROM a/b:1@{DIGEST}\nRUN true\n"


def test_what_is_published_is_what_was_tried() -> None:
    """One call of make has `dist` once, and the artifact with it goes to the index and to the release."""
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    commands = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    assert [command for command in commands if re.search(r"\bmake\b|\bbuild\b", command)] == [
        'make release-notes test-install TAG="$GITHUB_REF_NAME"'
    ]
    command = ["make", "-n", "release-notes", "test-install", "TAG=v0.0.0"]
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(command, cwd=ROOT, env=outside, capture_output=True, text=True, check=True)
    assert done.stdout.count("-m build") == 1
    assert "tools.install_check dist" in done.stdout
