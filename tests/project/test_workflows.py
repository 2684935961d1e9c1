"""The workflows for GitHub run what the Makefile has, and what `.ci/run` checks, with actions pinned to a commit."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.repositories import git

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WITH_ACTIONS = [*WORKFLOWS, ROOT / "action.yml", ROOT / "pytest_tfperf" / "features" / "init.py"]


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
                found |= {word for word in given.partition("#")[0].split()[1:] if "=" not in word and "/" not in word}
    return found


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_make_has_what_a_workflow_asks_of_it(workflow: Path) -> None:
    rules = re.findall(r"^([a-z-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert goals(workflow) - {*rules} == set()


def test_what_must_hold_on_github_must_hold_for_ci_run() -> None:
    words = re.findall(r"[\w-]+", (ROOT / ".ci" / "run").read_text())
    assert goals(ROOT / ".github" / "workflows" / "ci.yml") - {*words} == set()


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
