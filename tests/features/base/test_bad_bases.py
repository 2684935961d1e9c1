"""What can't be a base is refused before anything is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.inner import Project
from tests.helpers.repositories import Repository, git


@pytest.fixture
def repository(played_project: Project) -> Repository:
    return Repository(played_project)


def refusal(folder: Path, monkeypatch: pytest.MonkeyPatch, base: str, *arguments: str) -> str:
    """What is said before anything is collected."""
    from _pytest.config import get_config

    monkeypatch.chdir(folder)
    config = get_config([])
    config.parse(
        [f"--tfperf-base={base}", "-p", "no:cacheprovider", "-p", "no:terminal", "-c", "pytest.ini", *arguments]
    )
    try:
        with pytest.raises(pytest.UsageError) as refused:
            config._do_configure()
    finally:
        config._ensure_unconfigure()
    return str(refused.value)


def test_a_folder_that_is_no_repository(played_project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"git finds no repository at {played_project.folder}" in refusal(played_project.folder, monkeypatch, "main")


def test_without_git(played_project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(played_project.folder))
    assert "git can't be run: No such file or directory. Install git" in refusal(
        played_project.folder, monkeypatch, "main"
    )


def test_a_repository_without_a_commit(played_project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    git(played_project.folder, "init", "--quiet")
    assert "has no commit yet. Commit the tests" in refusal(played_project.folder, monkeypatch, "main")


@pytest.mark.parametrize("revision", ["origin/main", "--output=x", "main:loop.py"])
def test_a_revision_that_is_no_commit(repository: Repository, monkeypatch: pytest.MonkeyPatch, revision: str) -> None:
    said = refusal(repository.folder, monkeypatch, revision)
    assert f"--tfperf-base: '{revision}' is no commit of {repository.folder}. Fetch it" in said


def test_a_branch_with_nothing_in_common(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.git("switch", "--quiet", "--orphan", "another")
    repository.commit("another beginning")
    repository.project.write("pytest.ini", "[pytest]\n")
    assert "HEAD and main have no common commit. Name a branch" in refusal(repository.folder, monkeypatch, "main")


def test_a_shallow_clone(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.git("switch", "--quiet", "--create", "branch")
    repository.commit("on the branch")
    repository.git("switch", "--quiet", "main")
    repository.commit("on main")
    clone = tmp_path / "clone"
    url = repository.folder.as_uri()
    git(tmp_path, "clone", "--quiet", "--depth=1", "--no-single-branch", "--branch=branch", url, str(clone))
    said = refusal(clone, monkeypatch, "origin/main")
    assert "HEAD and origin/main have no common commit. This is a shallow clone" in said
    assert "fetch-depth: 0" in said
    assert "fetch-depth: 0" in refusal(clone, monkeypatch, "HEAD~1")


def test_a_lock_without_a_base(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    said = refusal(repository.folder, monkeypatch, "none", "--tfperf-base-lock=a.txt")
    assert "--tfperf-base-lock is for --tfperf-base=REV" in said


@pytest.mark.parametrize("other", ["--update-baselines", "--tfperf-smoke", "--tfperf-against=/usr/bin/python3"])
def test_options_that_contradict_it(repository: Repository, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    said = refusal(repository.folder, monkeypatch, "main", other)
    assert "Leave one of them out" in said


# When tests were collected


def test_a_base_without_the_tests_folder(repository: Repository) -> None:
    repository.git("mv", "perf_tests", "new_tests")
    session = repository.project.run("new_tests", "--tfperf-base=main")
    assert "has no folder new_tests/, so it has nothing to compare with. Merge the tests first" in session.text
    assert not repository.project.started_workers


def test_a_lock_that_the_base_lacks(repository: Repository) -> None:
    repository.project.write("packages.txt", "")
    session = repository.project.run("perf_tests", "--tfperf-base=main", "--tfperf-base-lock=packages.txt")
    assert "has no packages.txt there. Name a file that it has" in session.text
    assert not repository.project.started_workers


def test_a_submodule_that_can_not_be_checked_out(repository: Repository, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "--quiet")
    git(other, "-c", "user.name=Ada", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "--message=one")
    repository.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    repository.commit("a submodule")
    other.rename(tmp_path / "gone")
    session = repository.project.run("perf_tests", "--tfperf-base=main")
    assert "git can't check out" in session.text
    assert "git -C /tmp/base submodule update" in session.text
    assert repository.worktrees == []
    assert not repository.project.started_workers
