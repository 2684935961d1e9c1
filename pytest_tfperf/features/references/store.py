"""Reference environments on disk: a virtual environment for each lock, beside it a git worktree for each commit."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import final

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.errors import TfperfError, one_of
from pytest_tfperf.features.references.environment import ReferenceEnvironment
from pytest_tfperf.revisions.git import commit_of, repository_of, require_commit
from pytest_tfperf.revisions.lock import SUFFIX, Lock, contradiction, read_lock, unrepeatable
from pytest_tfperf.revisions.unwritable import after_os_error
from pytest_tfperf.revisions.virtual_environment import NAME_ONE, fault_of, lock_of, make_virtual_environment
from pytest_tfperf.revisions.worktrees import add_worktree, remove_worktree

StatusCallback = Callable[[str], object]
"""Called with a line of text before anything that may take minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An environment as `tfperf reference list` shows it.

    Args:
        name: the argument of `tfperf reference remove`.
        fault: why it can't be used, and the next step; "" if it can.
        lock: the lock of its packages; None if its creation was interrupted.
        commits: the commits whose code it has.
        rows: number of baselines that it serves.
        bytes: its size on disk.
    """

    name: str
    fault: str
    lock: Lock | None
    commits: tuple[str, ...]
    rows: int
    bytes: int


@final
class ReferenceStore:
    """The reference environments in `<folder>/reference/<name>/`, named after their locks.

    Each has a virtual environment, `venv/`, and the code of each commit, `source/<commit>/`.

    Args:
        folder: tfperf's own folder, `.tfperf`.
        baselines: the folder of the locks.
        root: the project, a folder in a git repository.
    """

    def __init__(self, folder: Path, *, baselines: Path, root: Path) -> None:
        self._folder = folder.absolute() / "reference"
        self._baselines = baselines.absolute()
        self._root = root.absolute()

    def find(self, row: Baseline) -> ReferenceEnvironment:
        """The environment that serves a row.

        Raises:
            TfperfError: it is missing, incomplete, changed or unreadable; says how to build it.
        """
        home = self._home(row)
        try:
            why = unrepeatable(row) or self._packages_fault(home) or self._code_fault(home, row.commit)
            why = why or contradiction(row, read_lock(self._baselines / row.lock))
        except (OSError, UnicodeDecodeError) as error:  # another user made it, or a session is removing it
            why = f"{home} can't be read: {error}. {self._build_it(home)}"
        if why:
            raise TfperfError(why)
        return self._environment(row, repository_of(self._root) or self._root)

    def create(self, row: Baseline, progress: StatusCallback) -> ReferenceEnvironment:
        """Build the missing parts of the row's environment; a failure leaves nothing incomplete.

        Raises:
            TfperfError: the row names no lock or commit, the commit is gone, its Python is missing, the packages can't
                be installed, the disk is full, or the code was changed by hand.
        """
        if why := unrepeatable(row):
            raise TfperfError(why)
        home, path = self._home(row), self._baselines / row.lock
        lock, repository = read_lock(path), repository_of(self._root)
        if why := contradiction(row, lock):
            raise TfperfError(why)
        if repository is None:
            raise TfperfError(
                f"git finds no repository at {self._root}, so the code of {row.commit} can't be checked out",
                next_step=f"Call it in the project's repository, {NAME_ONE}",
            )
        require_commit(repository, row.commit)  # before minutes go into packages
        with self._alone(progress):
            if self._packages_fault(home):
                progress(f"{home.name}: installing its packages with Python {lock.python}; this can take minutes")
                make_virtual_environment(home / "venv", path)
            source = _source(home, row.commit)
            if not source.exists():
                progress(f"{home.name}: checking out {row.commit}")
                add_worktree(repository, row.commit, source)
            elif fault := self._code_fault(home, row.commit):
                raise TfperfError(fault)
        return self._environment(row, repository)

    def entries(self, rows: Iterable[Baseline]) -> list[Entry]:
        """All environments, by name; `rows` are the baselines that they may serve."""
        wanted = Counter((row.lock, row.commit) for row in rows)
        return [self._entry(home, wanted) for home in self._homes()]

    def remove(self, name: str, progress: StatusCallback) -> None:
        """Delete an environment, with the worktrees in it, from disk and from git.

        Raises:
            TfperfError: no environment has that name, or it can't be deleted.
        """
        homes = {home.name: home for home in self._homes()}
        if name not in homes:
            raise TfperfError(one_of("reference environment", name, homes))
        with self._alone(progress):
            for source in (homes[name] / "source").glob("*"):
                remove_worktree(self._root, source)
            shutil.rmtree(homes[name])

    def _home(self, row: Baseline) -> Path:
        return self._folder / row.lock.removesuffix(SUFFIX)

    def _homes(self) -> list[Path]:
        return sorted(home for home in self._folder.glob("*") if home.is_dir() and any(home.iterdir()))

    def _environment(self, row: Baseline, repository: Path) -> ReferenceEnvironment:
        home = self._home(row)
        python, source = home / "venv" / "bin" / "python", _source(home, row.commit)
        return ReferenceEnvironment(name=home.name, python=python, source=source, replaces=repository)

    def _entry(self, home: Path, wanted: Counter[tuple[str, str]]) -> Entry:
        commits = sorted(source.name for source in (home / "source").glob("*"))
        faults = [self._packages_fault(home), *(self._code_fault(home, commit) for commit in commits)]
        return Entry(
            name=home.name,
            fault=next(filter(None, faults), ""),
            lock=lock_of(home / "venv"),
            commits=tuple(commits),
            rows=sum(wanted[home.name + SUFFIX, commit] for commit in commits),
            bytes=sum(file.lstat().st_blocks * 512 for file in home.rglob("*")),
        )

    def _packages_fault(self, home: Path) -> str:
        path = self._baselines / (home.name + SUFFIX)
        try:
            read_lock(path)
        except TfperfError as error:
            return str(error)
        fault = fault_of(home / "venv", path)
        return fault and f"{fault}. {self._build_it(home)}"

    def _code_fault(self, home: Path, commit: str) -> str:
        source = _source(home, commit)
        if not source.exists():
            return f"the code of {commit} is not in {home}. {self._build_it(home)}"
        if commit_of(source) != commit:
            return f"the code in {source} is not that of {commit} any more. Delete that folder. {self._build_it(home)}"
        return ""

    def _build_it(self, home: Path) -> str:
        """The next step: the command that builds it from the current folder."""
        folder, baselines = (shlex.quote(os.path.relpath(path)) for path in (self._folder.parent, self._baselines))
        machine = home.name.rpartition("-")[0]
        return f"Build it: tfperf reference create --machine={machine} --dir={folder} --baselines={baselines}"

    @contextmanager
    def _alone(self, progress: StatusCallback) -> Iterator[None]:
        """Wait until no other process creates or removes environments here."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / ".gitignore").write_text("*\n", "utf-8")  # `git add .` must not add it
            with (self._folder / ".lock").open("a", encoding="utf-8") as file:
                os.set_inheritable(file.fileno(), True)  # an installer that outlives this process still holds it
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    progress(f"waiting for another `tfperf reference`, which is at work in {self._folder}")
                    fcntl.flock(file, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise TfperfError(
                f"{error.filename or self._folder} can't be written: {error.strerror}",
                next_step=after_os_error(error, "or name another folder with --dir"),
            ) from None


def _source(home: Path, commit: str) -> Path:
    return home / "source" / commit
