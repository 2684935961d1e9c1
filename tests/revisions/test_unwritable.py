"""A commit that can't be checked out: the error has git's own reason and the step that fits it."""

from __future__ import annotations

import re

import pytest

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.revisions.worktrees import Worktrees, _after_checkout
from tests.helpers.repositories import Repository
from tests.helpers.space import full_disk_at, read_only


def refusal(repository: Repository) -> str:
    """The error for the last commit."""
    worktrees = Worktrees(repository.folder, repository.folder / ".tfperf" / "checkouts")
    with pytest.raises(TfperfError, match="git can't check out") as raised:
        worktrees.get(repository.git("rev-parse", "HEAD"))
    return str(raised.value)


def test_a_full_disk_is_told_with_what_the_files_take(repository: Repository) -> None:
    repository.project.write("weights.txt", "7" * 3_000_000)
    repository.commit("weights")
    with full_disk_at(repository.folder / ".tfperf" / "checkouts"):
        said = refusal(repository)
    assert re.search(r"take 2\.\d+ MiB, and ", said)
    assert "has 1,020 KiB left. Free space there, or use another folder" in said
    assert "password" not in said


def test_a_read_only_repository_is_told(repository: Repository) -> None:
    with read_only(repository.folder / ".git"):
        said = refusal(repository)
    assert "Read-only file system" in said
    assert "the repository's .git: make both writable, or run in a clone of your own" in said
    assert "password" not in said


@pytest.mark.parametrize(
    ("errors", "step"),
    [
        ("fatal: sha1 file 'x' write error. Out of diskspace", "Free space there"),
        ("error: unable to create file a: Disk quota exceeded", "Free space there"),
        ("fatal: could not create directory of '.git/worktrees/y': Permission denied", "make both writable"),
        (
            "git@host: Permission denied (publickey).\nfatal: Could not read from remote repository.",
            "a password; try it",
        ),
        ("fatal: could not read Username for 'https://host': terminal prompts disabled", "a password; try it"),
        ("fatal: bad object 0123", "Try it by hand: git worktree add --detach /tmp/base "),
    ],
)
def test_the_next_step_fits_the_reason(errors: str, step: str, repository: Repository) -> None:
    said = _after_checkout(errors, repository.folder, repository.git("rev-parse", "HEAD"), repository.folder / "x")
    assert step in said
    assert said.count("password") == step.count("password")
