"""`.ci/changed`: what CI need not try again, because nothing of it changed since the base."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.helpers.repositories import git

SCRIPT = Path(__file__).parents[2] / ".ci" / "changed"
HOUR = 3600


def run(folder: Path, what: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "BASE"} | variables
    return subprocess.run([SCRIPT, what], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def base(folder: Path, **variables: str) -> str:
    return run(folder, "base", **variables).stdout.strip()


def commit(folder: Path, file: str, hours: float) -> str:
    """Change the file, so many hours after the first commit; returns the commit."""
    with (folder / file).open("a") as changed:
        changed.write(f"{hours}\n")
    git(folder, "add", ".")
    when = f"{1_800_000_000 + int(hours * HOUR)} +0000"
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.invalid", "commit", "--quiet", "-m", f"{hours}"]
    dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    subprocess.run(command, cwd=folder, env=os.environ | dates, check=True)
    return git(folder, "rev-parse", "HEAD").strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    commit(tmp_path, "pyproject.toml", hours=0)
    return tmp_path


def test_on_a_branch_the_base_is_where_it_left_main(repository: Path) -> None:
    left = commit(repository, "a.py", hours=1)
    git(repository, "switch", "--quiet", "-c", "branch")
    commit(repository, "a.py", hours=30)
    assert base(repository) == left


def test_on_main_the_base_is_older_than_any_submission_takes(repository: Path) -> None:
    before = commit(repository, "a.py", hours=10)
    commit(repository, "a.py", hours=23)
    commit(repository, "a.py", hours=30)
    assert base(repository) == before


def test_a_base_that_is_given_is_taken(repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD").strip()
    commit(repository, "a.py", hours=1)
    assert base(repository, BASE=first) == first


@pytest.mark.parametrize("given", ["0" * 40, "no-such-branch"])
def test_a_base_that_is_not_here_is_not_known(given: str, repository: Path) -> None:
    assert base(repository, BASE=given) == ""
    assert run(repository, "packaging", BASE=given).returncode == 0


def test_a_folder_without_git_has_no_base_and_may_have_changed(tmp_path: Path) -> None:
    assert (base(tmp_path), run(tmp_path, "packaging").returncode) == ("", 0)


@pytest.mark.parametrize(("file", "changed"), [("pyproject.toml", True), ("constraints.txt", True), ("a.py", False)])
def test_packaging_changed_where_a_file_of_it_did(file: str, changed: bool, repository: Path) -> None:
    commit(repository, file, hours=20)
    assert (run(repository, "packaging").returncode == 0) is changed


def test_a_change_that_is_not_committed_counts(repository: Path) -> None:
    commit(repository, "a.py", hours=20)
    (repository / "pyproject.toml").write_text("changed\n")
    assert run(repository, "packaging").returncode == 0
