"""Questions to git: a repository's root, the commit of a revision, and the commits between two."""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from pytest_tfperf.core.rerun_command import recording_option
from pytest_tfperf.errors import TfperfError

SHOWN: Final = 12
"""Digits of a hash in messages and in the history."""

DIRTY: Final = "-dirty"
"""The end of a commit's name if tracked files differed from it."""

_WHOLE: Final = (
    "In CI, clone with the whole history (GitHub: fetch-depth: 0, GitLab: GIT_DEPTH: 0); here: git fetch --unshallow"
)

_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")


def run_git(folder: Path, *arguments: str, paths: Iterable[Path] = ()) -> subprocess.CompletedProcess[str]:
    """Run git in a folder, without the user's hooks; a missing git gives a result that failed.

    `paths` are given to its standard input, for the options `--stdin -z`.

    The variables that git sets for hooks and for `git bisect run` are removed: they lead to another repository.
    """
    command = ["git", "-C", str(folder), "-c", "core.hooksPath=/dev/null", *arguments]
    kept = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    try:
        return subprocess.run(
            command,
            env={**kept, "LC_ALL": "C"},  # its errors are parsed
            input="\0".join(map(str, paths)),
            capture_output=True,
            text=True,
            errors="surrogateescape" if "-z" in arguments else "replace",  # paths must stay as they are
            check=False,
        )
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", f"git can't be run: {error.strerror}")


# A repository


def repository_of(folder: Path) -> Path | None:
    """The root of the repository that the folder is in; None if it is in none, or git is missing."""
    done = run_git(folder, "rev-parse", "--show-toplevel")
    return Path(done.stdout.rstrip("\n")) if done.returncode == 0 else None


def refusal_of(folder: Path) -> str:
    """Why git refuses to read the repository that the folder is in; "" if it does not, or there is none."""
    errors = run_git(folder, "rev-parse", "--show-toplevel").stderr
    match = re.search(r"dubious ownership in repository at '(.+)'", errors)
    if match is None:
        return ""
    return (
        f"git refuses to read {match[1]}, because another user owns it, so results and baselines name no commit: "
        f"git config --global --add safe.directory {match[1]}"
    )


def require_repository(folder: Path, wanted_by: str) -> Path:
    """The root of the repository that a folder is in, for the option that needs it.

    Raises:
        TfperfError: there is none, git is missing or refuses to read it, or nothing was committed yet.
    """
    repository = repository_of(folder)
    if repository is None:
        done = run_git(folder, "rev-parse", "--show-toplevel")
        if done.returncode == 127:
            raise TfperfError(f"{wanted_by}: {done.stderr}", next_step="Install git: it has the code of other commits")
        why = refusal_of(folder) or f"git finds no repository at {folder}. Run it in a clone of your repository"
        raise TfperfError(f"{wanted_by}: {why}")
    if run_git(repository, "rev-parse", "--verify", "--quiet", "HEAD").returncode:
        raise TfperfError(
            f"{wanted_by}: {repository} has no commit yet", next_step="Commit the tests and the models first"
        )
    return repository


def ignored(files: Iterable[Path]) -> frozenset[Path]:
    """Return the files that no commit has because git ignores them, or because they lie in no repository.

    git is asked once for each repository, of which a submodule is another: programs read tens of thousands of files.
    """
    found, by_root = set[Path](), defaultdict[Path, list[Path]](list)
    for file in files:
        root = file if _is_root(file) else _root_above(file.parent)
        if root is None:
            found.add(file)
        else:
            by_root[root].append(file)
    for root, inside in by_root.items():
        listed = run_git(root, "check-ignore", "--stdin", "-z", paths=inside).stdout
        found |= {Path(name) for name in listed.split("\0") if name}
    return frozenset(found)


@cache
def is_ignored(file: Path) -> bool:
    """Whether no commit has the file, as `ignored` says; cached."""
    return bool(ignored([file]))


@cache
def _root_above(folder: Path) -> Path | None:
    if _is_root(folder):
        return folder
    return None if folder == folder.parent else _root_above(folder.parent)


def _is_root(path: Path) -> bool:
    return os.path.exists(path / ".git")  # noqa: PTH110  # a program's argument may be too long for a Path


# Commits


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit; its subject is the first line of its message."""

    hash: str  # all of its digits
    author: str  # name and address
    date: str  # YYYY-MM-DD
    subject: str

    @property
    def shown(self) -> str:
        """The hash in a message."""
        return self.hash[:SHOWN]


def commit_of(folder: Path, *, besides: Path | None = None) -> str:
    """The checked-out commit of the repository that `folder` is in, 12 digits; "" outside of a repository.

    "-dirty" follows if tracked files differ from the commit. Files below `besides` don't count: new baselines do not
    change the code.
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
        TfperfError: it does not; says how to fetch the commit.
    """
    if run_git(repository, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}").returncode:
        again = f"Fetch it: git fetch --all; where it was rebased away, record again with {recording_option()}"
        raise TfperfError(
            f"{repository} has no commit {commit}, at which baselines were recorded",
            next_step=_unless_shallow(repository, again),
        )


def _unless_shallow(repository: Path, otherwise: str) -> str:
    """The next step where a commit is missing: a shallow clone lacks old ones."""
    is_shallow = run_git(repository, "rev-parse", "--is-shallow-repository").stdout.strip() == "true"
    return f"This is a shallow clone. {_WHOLE}" if is_shallow else otherwise


def commit_named(repository: Path, revision: str, wanted_by: str) -> Commit:
    """The commit that a revision means.

    Raises:
        TfperfError: there is no such commit here; says how to fetch it.
    """
    done = run_git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if done.returncode == 0:
        return described(repository, [done.stdout.strip()])[0]
    advice = "Fetch it (git fetch origin), or name a branch, tag or commit that `git log` knows"
    raise TfperfError(
        f"{wanted_by}: {revision!r} is no commit of {repository}", next_step=_unless_shallow(repository, advice)
    )


def merge_base(repository: Path, revision: str, wanted_by: str) -> Commit:
    """The last common commit of HEAD and a revision: it lacks only the branch's own changes.

    Raises:
        TfperfError: no such commit, no common ancestor, or a clone that is too shallow to know it.
    """
    other = commit_named(repository, revision, wanted_by)
    done = run_git(repository, "merge-base", "HEAD", other.hash)
    if done.returncode == 0:
        return described(repository, [done.stdout.split()[0]])[0]
    raise TfperfError(
        f"{wanted_by}: HEAD and {revision} have no common commit",
        next_step=_unless_shallow(repository, "Name a branch that this one started from"),
    )


def is_ancestor(repository: Path, commit: str) -> bool:
    """Whether the repository has the commit, and HEAD is that commit or comes after it."""
    return run_git(repository, "merge-base", "--is-ancestor", commit, "HEAD").returncode == 0


def commits_after(repository: Path, good: Commit, bad: Commit, wanted_by: str) -> list[Commit]:
    """The commits from `good` (left out) to `bad`, oldest first, along first parents: a merge is one change.

    Raises:
        TfperfError: good is no ancestor of bad; or, in a shallow clone, that can't be known.
    """
    if run_git(repository, "merge-base", "--is-ancestor", good.hash, bad.hash).returncode:
        advice = _unless_shallow(repository, "Name a good commit that came before the bad one")
        raise TfperfError(f"{wanted_by}: {good.shown} is no ancestor of {bad.shown}", next_step=advice)
    done = run_git(repository, "rev-list", "--first-parent", "--reverse", "--ancestry-path", f"{good.hash}..{bad.hash}")
    hashes = done.stdout.split()
    if not hashes and good.hash != bad.hash:  # good came in by a merge, so no first parent leads to it
        hashes = run_git(repository, "rev-list", "--reverse", "--topo-order", f"{good.hash}..{bad.hash}").stdout.split()
    return described(repository, hashes)


def described(repository: Path, hashes: list[str]) -> list[Commit]:
    """Hash, author, date and subject of each."""
    if not hashes:
        return []
    form = "%H%x00%an <%ae>%x00%cs%x00%s"
    done = run_git(repository, "log", "--no-walk=unsorted", f"--format={form}", *hashes)
    return [Commit(*line.split("\0")) for line in done.stdout.splitlines()]
