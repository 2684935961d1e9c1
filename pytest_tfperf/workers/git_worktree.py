"""The user's code at an older commit, as a git worktree of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from pytest_tfperf.errors import TfperfError

DIRTY: Final = "-dirty"
"""What a commit ends in where files that git knows differed from it."""

# Set where a git hook runs pytest, and then they mean the hook's repository wherever git is called.
_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")


def repository_of(folder: Path) -> Path | None:
    """The root of the repository that the folder is in; None for none, or where there is no git."""
    done = _git(folder, "rev-parse", "--show-toplevel")
    return Path(done.stdout.rstrip("\n")) if done.returncode == 0 else None


def commit_of(folder: Path, *, besides: Path) -> str:
    """Hash of the commit of the repository that `folder` is in, 12 digits; "" in none.

    "-dirty" follows where files that git knows differ from it, other than those below `besides`: baselines that were
    just recorded are no change of the code.
    """
    head, repository = _git(folder, "rev-parse", "--short=12", "HEAD"), repository_of(folder)
    if head.returncode or repository is None:
        return ""
    but = []
    if besides.resolve().is_relative_to(repository):
        but = [f":(top,exclude,literal){besides.resolve().relative_to(repository)}"]
    changed = _git(folder, "diff", "--quiet", "HEAD", "--", ":/", *but).returncode != 0
    return head.stdout.strip() + (DIRTY if changed else "")


def require_commit(repository: Path, commit: str) -> None:
    """Return where the repository has the commit.

    Raises:
        TfperfError: it has not, or not any more; says what fetches it.
    """
    if _git(repository, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}").returncode == 0:
        return
    if _git(repository, "rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        raise TfperfError(
            f"{repository} is a shallow clone without the commit {commit}, at which baselines were recorded. "
            "Fetch the rest: git fetch --unshallow (in CI, clone with the whole history)"
        )
    raise TfperfError(
        f"{repository} has no commit {commit}, at which baselines were recorded. Fetch it: git fetch --all; "
        "where it was rebased away, record again with --update-baselines"
    )


def add_worktree(repository: Path, commit: str, folder: Path) -> None:
    """Check the commit out, with its submodules, in place of what is in `folder`; a failure leaves no folder.

    Raises:
        TfperfError: git can't; shows what it said.
    """
    remove_worktree(repository, folder)
    quiet = ("-c", "core.hooksPath=/dev/null")  # the user's hooks are for the user's own check-outs
    try:
        done = _git(repository, *quiet, "worktree", "add", "--detach", str(folder), commit)
        if done.returncode == 0 and (folder / ".gitmodules").exists():
            done = _git(folder, *quiet, "submodule", "update", "--init", "--recursive")
        if done.returncode:
            said = "\n".join(f"  | {line}" for line in done.stderr.strip().splitlines()[-5:])
            raise TfperfError(f"git can't check out {commit} into {folder}:\n{said}")
    except BaseException:
        remove_worktree(repository, folder)
        raise


def remove_worktree(repository: Path, folder: Path) -> None:
    """Delete the folder with all changes in it, and have git forget it; nothing happens where it is gone."""
    shutil.rmtree(folder, ignore_errors=True)  # git removes neither one that is broken nor another clone's
    _git(repository, "worktree", "remove", "--force", "--force", str(folder))


def commit_in(folder: Path) -> str:
    """Whole hash of what a worktree has checked out, "-dirty" after it where files differ; "" where it is none."""
    if not (folder / ".git").exists():  # or git would answer for a repository around it
        return ""
    return _git(folder, "describe", "--always", "--exclude=*", "--abbrev=40", "--dirty").stdout.strip()


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A git that is missing has failed, as git says it has."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", f"git can't be run: {error.strerror}")
