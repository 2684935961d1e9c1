"""The commit that code is of, as git tells it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_tfperf.revisions import git
from pytest_tfperf.revisions.git import commit_of, ignored, refusal_of
from tests.helpers.inner import Project
from tests.helpers.repositories import Repository


def test_baselines_that_were_just_recorded_do_not_make_the_code_dirty(repository: Repository) -> None:
    baselines = repository.folder / "baselines"
    baselines.mkdir()
    (baselines / "box.csv").write_text("old")
    last = repository.commit("baselines")
    (baselines / "box.csv").write_text("new")
    assert commit_of(repository.folder, besides=baselines) == last[:12]
    assert commit_of(repository.folder) == f"{last[:12]}-dirty"


@pytest.mark.parametrize("below", ["", "perf_tests"], ids=["the root", "a folder of it"])
def test_a_changed_file_makes_the_code_dirty(repository: Repository, below: str) -> None:
    repository.cost(0.02)
    commit = repository.git("rev-parse", "--short=12", "HEAD")
    assert commit_of(repository.folder / below, besides=repository.folder / "baselines") == f"{commit}-dirty"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_another_user_is_named_with_the_command_that_trusts_it(repository: Repository) -> None:
    assert refusal_of(repository.folder) == ""
    os.chown(repository.folder, 12345, 12345)
    assert commit_of(repository.folder) == ""
    assert refusal_of(repository.folder).endswith(f"git config --global --add safe.directory {repository.folder}")


def test_outside_of_a_repository_there_is_no_commit(tmp_path: Path) -> None:
    assert commit_of(tmp_path, besides=tmp_path / "baselines") == ""


def test_each_file_is_ignored_by_the_repository_that_holds_it(repository: Repository, tmp_path: Path) -> None:
    inner = Repository(Project(tmp_path / "inner"))
    repository.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.folder), "inner")
    repository.project.write(".gitignore", "*.log\ndata/\n!keep.log\n")
    names = [
        "cost.py",
        "new.py",
        "a.log",
        "keep.log",
        "data/ü",
        "data/a\nb",
        "data/\udcff",
        "inner/cost.py",
        "inner/a.log",
    ]
    files = {name: repository.folder / name for name in [*names, "inner/.tfperf/x"]}
    outside = tmp_path / "outside"
    expected = {files[name] for name in ("a.log", "data/ü", "data/a\nb", "data/\udcff", "inner/.tfperf/x")} | {outside}
    assert ignored([*files.values(), outside, repository.folder]) == expected


def test_git_is_asked_once_about_any_number_of_files(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    run_git = git.run_git
    monkeypatch.setattr(
        git, "run_git", lambda folder, *words, **how: asked.append(words[0]) or run_git(folder, *words, **how)
    )
    files = [repository.folder / ".tfperf" / str(number) for number in range(5000)]
    assert (ignored(files), asked) == (set(files), ["check-ignore"])
