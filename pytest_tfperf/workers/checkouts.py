"""Older commits of the user's repository, checked out beside each other in a folder of ours, once each."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final, final

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.workers.git_worktree import add_worktree, commit_of, remove_worktree, repository_of, run_git

KEPT: Final = 4
"""How many worktrees that no session uses are kept: a pull request's base rarely changes."""

_READY = ".ready"  # written last: a worktree without it was interrupted
_LOCK = ".lock"


@final
class Checkouts:
    """The worktrees in a folder, those of this process held against removal until it ends.

    A kill -9 leaves a worktree that git knows of and that may be incomplete; the next `get` removes it.

    Args:
        repository: the repository's root.
        folder: of ours; made where missing, and ignored by git.
    """

    def __init__(self, repository: Path, folder: Path) -> None:
        self._repository = repository
        self._folder = folder.absolute()
        self._held = ExitStack()

    def get(self, commit: str) -> Path:
        """The folder with the code of a commit; a later session finds it there.

        Args:
            commit: the hash of a commit that the repository has.

        Raises:
            TfperfError: git can't check it out, with its submodules, or the disk is full.
        """
        try:
            with self._alone():
                self._prune(keep=commit)
                folder = self._folder / commit
                if not (self._ready(folder).exists() and _is_unchanged(folder)):
                    self._remove(folder)
                    _add(self._repository, commit, folder)
                self._ready(folder).touch()
                self._held.enter_context(_locked(self._lock(folder), fcntl.LOCK_SH))
                return folder
        except OSError as error:
            raise TfperfError(
                f"{error.filename or self._folder}: the code of {commit} can't be checked out: {error.strerror}. Free "
                "some space, or name another folder with --tfperf-dir"
            ) from None

    def close(self) -> None:
        """Let others remove them."""
        self._held.close()

    def _prune(self, keep: str) -> None:
        """Remove those that were interrupted, or are in excess; not those that a session uses."""
        there = [path for path in self._folder.iterdir() if path.is_dir()]
        known = run_git(self._repository, "worktree", "list", "--porcelain").stdout
        there += [Path(path) for path in re.findall(r"^worktree (.+)$", known, re.MULTILINE)]
        ours = {path.name: path for path in there if path.parent.resolve() == self._folder.resolve()}
        done = [path for path in ours.values() if self._ready(path).exists() and path.is_dir()]
        newest = sorted(done, key=lambda path: self._ready(path).stat().st_mtime, reverse=True)[:KEPT]
        for path in ours.values():
            if path not in newest and path.name != keep and self._is_free(path):
                self._remove(path)

    def _is_free(self, folder: Path) -> bool:
        try:
            with _locked(self._lock(folder), fcntl.LOCK_EX | fcntl.LOCK_NB):
                return True
        except BlockingIOError:
            return False

    def _remove(self, folder: Path) -> None:
        self._ready(folder).unlink(missing_ok=True)
        remove_worktree(self._repository, folder)
        self._lock(folder).unlink(missing_ok=True)

    def _ready(self, folder: Path) -> Path:
        return self._folder / (folder.name + _READY)

    def _lock(self, folder: Path) -> Path:
        return self._folder / (folder.name + _LOCK)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until no other process adds or removes worktrees here."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / ".gitignore").write_text("*\n", "utf-8")  # `git add .` must not add it
        with _locked(self._folder / _LOCK, fcntl.LOCK_EX):
            yield


def _is_unchanged(folder: Path) -> bool:
    """Whether it is still the worktree of the commit that its name says; without its `.git` it is the user's own."""
    return repository_of(folder) == folder.resolve() and commit_of(folder) == folder.name[:12]


def _add(repository: Path, commit: str, folder: Path) -> None:
    try:
        add_worktree(repository, commit, folder)
    except TfperfError as error:
        raise TfperfError(
            f"{error}\nGit must be able to check it out, with its submodules, without asking for a password; try it: "
            f"git worktree add --detach /tmp/base {commit[:12]} && git -C /tmp/base submodule update --init --recursive"
        ) from None


@contextmanager
def _locked(path: Path, how: int) -> Iterator[IO[str]]:
    with path.open("a", encoding="utf-8") as file:
        os.set_inheritable(file.fileno(), False)
        fcntl.flock(file, how)
        yield file
