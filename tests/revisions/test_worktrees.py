"""Worktrees of older commits: made once, held, pruned."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.revisions.worktrees import KEPT, Worktrees
from tests.helpers.repositories import Repository


def checkouts(repository: Repository) -> Worktrees:
    return Worktrees(repository.folder, repository.folder / ".tfperf" / "checkouts")


def test_a_commit_is_checked_out_once(repository: Repository) -> None:
    commit = repository.git("rev-parse", "HEAD")
    folder = checkouts(repository).get(commit)
    (folder / "mark").touch()
    assert (checkouts(repository).get(commit) / "mark").exists()


def test_one_that_was_changed_by_hand_is_made_anew(repository: Repository) -> None:
    commit = repository.git("rev-parse", "HEAD")
    first = checkouts(repository)
    (first.get(commit) / "cost.py").write_text("COST = 1\n")
    first.close()
    assert (checkouts(repository).get(commit) / "cost.py").read_text() == "COST = 0.01\n"


def test_a_search_that_comes_back_to_a_commit_gets_its_files_as_they_were(repository: Repository) -> None:
    commit, search = repository.git("rev-parse", "HEAD"), checkouts(repository)
    (search.get(commit) / "cost.py").write_text("COST = 1\n")
    assert (search.get(commit) / "cost.py").read_text() == "COST = 0.01\n"


def test_one_that_was_changed_is_not_taken_from_the_session_that_runs_it(repository: Repository) -> None:
    commit, first = repository.git("rev-parse", "HEAD"), checkouts(repository)
    changed = first.get(commit) / "cost.py"
    changed.write_text("COST = 1\n")
    with pytest.raises(TfperfError, match="is in use by another session, and tracked files in it were changed"):
        checkouts(repository).get(commit)
    assert changed.read_text() == "COST = 1\n"
    first.close()


def test_old_ones_are_removed_and_those_in_use_are_not(repository: Repository) -> None:
    commits = [repository.commit(f"number {number}") for number in range(KEPT + 3)]
    first = checkouts(repository)
    first.get(commits[0])
    for commit in commits[1:]:
        other = checkouts(repository)
        other.get(commit)
        other.close()
    assert commits[0] in repository.worktrees
    first.close()
    checkouts(repository).get(commits[-1])
    assert commits[0] not in repository.worktrees
    assert len(repository.worktrees) <= KEPT


# The git that is killed with it has written its record and a part of the files.
KILLED = """
import os, signal, sys
from pathlib import Path
from pytest_tfperf.revisions import worktrees
from pytest_tfperf.revisions.git import run_git

def killed(repository, commit, folder):
    run_git(repository, "worktree", "add", "--force", "--detach", "--lock", "--no-checkout", str(folder), commit)
    os.kill(os.getpid(), signal.SIGKILL)

worktrees.add_worktree = killed
worktrees.Worktrees(Path(sys.argv[1]), Path(sys.argv[2])).get(sys.argv[3])
"""


def test_what_a_kill_left_is_removed_by_the_next_session(repository: Repository) -> None:
    left = repository.git("rev-parse", "HEAD")
    folder = repository.folder / ".tfperf" / "checkouts"
    done = subprocess.run([sys.executable, "-c", KILLED, str(repository.folder), str(folder), left], check=False)
    assert done.returncode == -signal.SIGKILL
    assert repository.worktrees == [left]
    other = repository.commit("another")
    checkouts(repository).get(other)
    assert repository.worktrees == [other]
    assert not (folder / left).exists()


def test_a_session_that_git_calls_from_a_hook_uses_the_folders_repository(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    folder = checkouts(repository).get((repository.folder / ".git" / "refs" / "heads" / "main").read_text().strip())
    assert (folder / "cost.py").exists()
