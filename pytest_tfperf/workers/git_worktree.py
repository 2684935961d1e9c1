"""The user's code at an older commit, as a git worktree of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.workers.failures import last_lines

DIRTY: Final = "-dirty"
"""The end of a commit's name if tracked files differed from it."""

_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")


def repository_of(folder: Path) -> Path | None:
    """The root of the repository that the folder is in; None if it is in none, or git is missing."""
    done = run_git(folder, "rev-parse", "--show-toplevel")
    return Path(done.stdout.rstrip("\n")) if done.returncode == 0 else None


def refusal_of(folder: Path) -> str:
    """Why git refuses to read the repository that the folder is in; "" if it does not, or there is none."""
    found = re.search(
        r"dubious ownership in repository at '(.+)'", run_git(folder, "rev-parse", "--show-toplevel").stderr
    )
    if found is None:
        return ""
    return (
        f"git refuses to read {found[1]}, because another user owns it, so results and baselines name no commit: "
        f"git config --global --add safe.directory {found[1]}"
    )


def commit_of(folder: Path, *, besides: Path | None = None) -> str:
    """Hash of the checked-out commit of the repository that `folder` is in, 12 digits; "" outside of a repository.

    "-dirty" follows if tracked files differ from the commit. Files below `besides` don't count: baselines that were
    just recorded do not change the code.
    """
    head, repository = run_git(folder, "rev-parse", "--short=12", "HEAD"), repository_of(folder)
    if head.returncode or repository is None:
        return ""
    but = []
    if besides is not None and besides.resolve().is_relative_to(repository):
        but = [f":(top,exclude,literal){besides.resolve().relative_to(repository)}"]
    changed = run_git(folder, "diff", "--quiet", "HEAD", "--", ":/", *but).returncode != 0
    return head.stdout.strip() + (DIRTY if changed else "")


def require_commit(repository: Path, commit: str) -> None:
    """Return if the repository has the commit.

    Raises:
        TfperfError: it has not; says how to fetch it.
    """
    if run_git(repository, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}").returncode == 0:
        return
    if run_git(repository, "rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        raise TfperfError(
            f"{repository} is a shallow clone without the commit {commit}, at which baselines were recorded. "
            "Fetch the rest: git fetch --unshallow (in CI, clone with the whole history)"
        )
    raise TfperfError(
        f"{repository} has no commit {commit}, at which baselines were recorded. Fetch it: git fetch --all; "
        "where it was rebased away, record again with --update-baselines"
    )


def add_worktree(repository: Path, commit: str, folder: Path) -> None:
    """Check the commit out, with its submodules, into a new folder; a failure leaves no folder.

    Raises:
        TfperfError: git failed; shows what it wrote.
    """
    try:
        # Forced, because git may remember a worktree there that somebody deleted.
        done = run_git(repository, "worktree", "add", "--force", "--detach", str(folder), commit)
        if done.returncode == 0 and (folder / ".gitmodules").exists():
            done = run_git(folder, "submodule", "update", "--init", "--recursive")
        if done.returncode:
            raise TfperfError(f"git can't check out {commit} into {folder}:", *last_lines(done.stderr))
    except BaseException:
        remove_worktree(repository, folder)
        raise


def remove_worktree(repository: Path, folder: Path) -> None:
    """Delete the folder with all changes in it, and git's record of it."""
    shutil.rmtree(folder, ignore_errors=True)  # git removes neither one that is broken nor another clone's
    # Twice: git locks a worktree while it makes it, and a kill -9 leaves the lock.
    run_git(repository, "worktree", "remove", "--force", "--force", str(folder))


def run_git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in a folder, without the user's hooks; a missing git gives a result that failed.

    What git sets for its hooks and for `git bisect run` would lead it to another repository than the folder's.
    """
    command = ["git", "-C", str(folder), "-c", "core.hooksPath=/dev/null", *arguments]
    kept = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    try:
        return subprocess.run(
            command,
            env={**kept, "LC_ALL": "C"},  # we read its errors
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", f"git can't be run: {error.strerror}")
