"""The user's code at older commits: a git worktree of its own, or checked out beside each other in our folder."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, final

from pytest_tfperf.errors import TfperfError, worded
from pytest_tfperf.reports.numbers import size
from pytest_tfperf.revisions.git import commit_of, repository_of, run_git
from pytest_tfperf.workers.failures import last_line, last_lines

KEPT: Final = 4
"""The number of unused worktrees to keep: a pull request's base rarely changes."""

# In the words of the C library, which git, pip and uv repeat; git writes "unable to write file" of a full disk.
FULL: Final = re.compile(r"No space left on device|[Qq]uota exceeded|unable to write|write error")
_FORBIDDEN: Final = re.compile(r"Read-only file system|Permission denied(?! \()|Operation not permitted")
_OF_A_SERVER: Final = re.compile(
    r"could not read (Username|Password)|terminal prompts disabled|Authentication failed|Permission denied \(|"
    r"Host key verification|Could not read from remote|could not resolve|unable to access|submodule",
    re.IGNORECASE,
)

_READY = ".ready"  # written last: a worktree without it was interrupted
_LOCK = ".lock"


def add_worktree(repository: Path, commit: str, folder: Path) -> None:
    """Check the commit out, with its submodules, into a new folder; a failure leaves no folder.

    Raises:
        TfperfError: git failed; shows what it wrote, and the next step after that.
    """
    with ExitStack() as undo:
        undo.callback(remove_worktree, repository, folder)
        # Forced, because git may remember a worktree there that somebody deleted.
        done = run_git(repository, "worktree", "add", "--force", "--detach", str(folder), commit)
        if done.returncode == 0 and (folder / ".gitmodules").exists():
            done = run_git(folder, "submodule", "update", "--init", "--recursive")
        if done.returncode == 0:
            undo.pop_all()
            return
    next_step = _after_checkout(done.stderr, repository, commit, folder)
    fact = f"git can't check out {commit} into {folder}"
    brief = f"{fact}: {last_line(done.stderr)}"
    raise TfperfError(f"{fact}:", *last_lines(done.stderr), next_step, brief=brief)


def _after_checkout(errors: str, repository: Path, commit: str, folder: Path) -> str:
    """The next step after `git worktree add` or `git submodule update` failed with these errors."""
    if FULL.search(errors):
        return f"{_space(repository, commit, folder.parent)}Free space there, or use another folder"
    if _FORBIDDEN.search(errors):
        return (
            f"Git writes the files to {folder.parent}, and a record of them to the repository's .git: make both "
            f"writable, or run in a clone of your own: git clone {repository} FOLDER"
        )
    by_hand = f"git worktree add --detach /tmp/base {commit[:12]}"
    if _OF_A_SERVER.search(errors):
        return (
            "Git must be able to check it out, with its submodules, without asking for a password; try it: "
            f"{by_hand} && git -C /tmp/base submodule update --init --recursive"
        )
    return f"Try it by hand: {by_hand}"


def _space(repository: Path, commit: str, folder: Path) -> str:
    """What the commit's files take, and what is free, where that explains the failure; "" otherwise."""
    listed = run_git(repository, "ls-tree", "-r", "--long", commit).stdout
    needed = sum(map(int, re.findall(r"^\S+ blob \S+ +(\d+)\t", listed, re.MULTILINE)))
    free = shutil.disk_usage(folder).free
    if free >= needed:
        return ""
    return f"The files of {commit[:12]} take {size(needed)}, and {folder} has {size(free)} left. "


def remove_worktree(repository: Path, folder: Path) -> None:
    """Delete the folder with all changes in it, and git's record of it."""
    shutil.rmtree(folder, ignore_errors=True)  # git removes neither a broken worktree nor another clone's
    # Twice: git locks a worktree while it makes it, and a kill -9 leaves the lock.
    run_git(repository, "worktree", "remove", "--force", "--force", str(folder))


@final
class Worktrees:
    """The worktrees in a folder; the ones in use by this process are locked against removal until it ends.

    A kill -9 leaves a worktree that git knows of and that may be incomplete; the next `get` removes it. The folder is
    our own; it is made where missing, and ignored by git.
    """

    def __init__(self, repository: Path, folder: Path) -> None:
        self._repository = repository
        self._folder = folder.absolute()
        self._held: dict[Path, ExitStack] = {}

    def get(self, commit: str, say: Callable[[str], None] = lambda _: None) -> Path:
        """The folder with the code of a commit (its hash), which later sessions use again.

        Raises:
            TfperfError: git can't check it out, with its submodules, the disk is full, or its files were changed while
                another session uses it.
        """
        way_out = "Make it writable, or name another folder with --tfperf-dir"
        with worded(self._folder, "written", way_out), alone_in(self._folder):
            self._prune(keep=commit)
            folder = self._folder / commit
            self._release(folder)  # a search comes back to a commit
            # It is still a worktree, at the commit of its name; without its `.git` it would be of the user's code.
            is_unchanged = repository_of(folder) == folder.resolve() and commit_of(folder) == folder.name[:12]
            if not (is_unchanged and self._ready(folder).exists()):
                if not self._is_free(folder):
                    raise TfperfError(
                        f"{folder} is in use by another session, and tracked files in it were changed, perhaps by the "
                        "program",
                        next_step="Wait for that session, or name another folder with --tfperf-dir; "
                        f"git -C {folder} status shows the files",
                    )
                self._remove(folder)
                say(f"checking out {commit[:12]} in {folder.parent}")
                add_worktree(self._repository, commit, folder)
            self._ready(folder).touch()
            self._held[folder] = held = ExitStack()
            held.enter_context(_locked(self._lock(folder), fcntl.LOCK_SH))
            return folder

    def close(self) -> None:
        """Unlock them."""
        for folder in list(self._held):
            self._release(folder)

    def _release(self, folder: Path) -> None:
        if (held := self._held.pop(folder, None)) is not None:
            held.close()

    def _prune(self, keep: str) -> None:
        """Remove unused worktrees that were interrupted, or are older than the newest few."""
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
def alone_in(folder: Path, waits: Callable[[], object] = lambda: None, *, lock: str = _LOCK) -> Iterator[None]:
    """Wait until no other process that takes this lock changes our folder, which is made where missing."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", "utf-8")  # `git add .` must not add it
    with (folder / lock).open("a", encoding="utf-8") as file:
        os.set_inheritable(file.fileno(), True)  # an installer that outlives this process still holds it
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _locked(path: Path, operation: int) -> Iterator[None]:
    with path.open("a", encoding="utf-8") as file:
        fcntl.flock(file, operation)
        yield
