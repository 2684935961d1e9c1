"""What a search searches: commits, or environments between the one of a fast lock and the one of a slow lock."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol, final

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.bisect.step import State
from pytest_tfperf.judging.lasting_changes import changes_of
from pytest_tfperf.revisions.git import DIRTY, Commit, commit_named, commits_after, require_repository
from pytest_tfperf.revisions.virtual_environment import environment_of
from pytest_tfperf.revisions.worktrees import Checkouts
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.history import History

_ASKED_BY: Final = "tfperf bisect"


class States(Protocol):
    """What is searched, in order; state 0 is good."""

    @property
    def noun(self) -> str:
        """What one of them is."""

    @property
    def key(self) -> Sequence[str]:
        """What tells this search from others."""

    @property
    def names(self) -> Sequence[str]:
        """Of each state."""

    def state(self, index: int) -> State:
        """How it is measured; a TfperfError skips it."""

    def about(self, index: int) -> list[tuple[str, str]]:
        """What to show of the one that was found."""


def range_of(arguments: argparse.Namespace, project: Path) -> tuple[str, str]:
    """The good and the bad revision: as given, or from the history's last lasting slowdown, or the baseline's row.

    Raises:
        TfperfError: nothing says which commit was good.
    """
    if arguments.good:
        return arguments.good, arguments.bad or "HEAD"
    path = arguments.dir / "history.sqlite"
    kept = History(path).results() if path.exists() else []
    results = [one for one in kept if not one.is_slowed_on_purpose]
    own = [one for one in changes_of(results) if one.test == arguments.test and one.size < 0]
    slowdowns = [one for one in own if one.commit_before and one.commit_after]
    if slowdowns and not arguments.bad:
        return _clean(slowdowns[-1].commit_before), _clean(slowdowns[-1].commit_after)
    last = next((one for one in reversed(results) if one.test == arguments.test), None)
    if last is not None:
        row = BaselineStore(arguments.baselines).load(last.machine).get(Key(last.workload, last.topology))
        if row is not None and row.commit:
            return _clean(row.commit), arguments.bad or "HEAD"
    raise TfperfError(
        f"neither the history nor a baseline in {project} says when {arguments.test} was fast: name a commit, "
        "--good=REV"
    )


def _clean(commit: str) -> str:
    return commit.removesuffix(DIRTY)


@final
class CommitStates:
    """The good commit (state 0) and those after it; each is checked out once.

    Args:
        project: the folder of pytest's settings, in the repository.
        good, bad: revisions.
        folder: tfperf's own.

    Raises:
        TfperfError: a revision is no commit, or good is no ancestor of bad.
    """

    noun: Final = "commit"

    def __init__(self, project: Path, good: str, bad: str, folder: Path) -> None:
        repository = require_repository(project, _ASKED_BY).resolve()
        first = commit_named(repository, good, _ASKED_BY)
        last = commit_named(repository, bad, _ASKED_BY)
        self._commits: list[Commit] = [first, *commits_after(repository, first, last, _ASKED_BY)]
        if len(self._commits) < 2:
            raise TfperfError(f"{good} and {bad} are the same commit, {first.shown}: name an earlier --good")
        self._checkouts = Checkouts(repository, folder.absolute() / "checkouts")

    @property
    def key(self) -> list[str]:
        """What tells this search from others."""
        return [self._commits[0].hash, self._commits[-1].hash]

    @property
    def names(self) -> list[str]:
        """Of each state, in order."""
        return [commit.shown for commit in self._commits]

    def state(self, index: int) -> State:
        """How a state is measured.

        Raises:
            TfperfError: git can't check it out.
        """
        commit = self._commits[index]
        folder = self._checkouts.get(commit.hash)
        return State(name=commit.shown, kind=self.noun, python=sys.executable, folder=str(folder))

    def about(self, index: int) -> list[tuple[str, str]]:
        """Who did it, and the command that shows it."""
        commit = self._commits[index]
        return [
            ("author", f"{commit.author}, {commit.date}"),
            ("subject", commit.subject),
            ("show", f"git show {commit.shown}"),
        ]

    def close(self) -> None:
        """Let other sessions remove the checkouts."""
        self._checkouts.close()


_PYTHON: Final = re.compile(r"^# python: (\d+\.\d+)\S*$", re.MULTILINE)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@final
class PackageStates:
    """The fast environment (state 0), and each further package of the slow one, in the order of their names.

    Each state is an environment, which is made once and kept. One that pip can't make is skipped.

    Args:
        fast, slow: locks, as `pip freeze` and --update-baselines write them.
        folder: tfperf's own.

    Raises:
        TfperfError: a lock can't be read, or they differ in nothing, or in Python itself.
    """

    noun: Final = "packages"

    def __init__(self, fast: Path, slow: Path, folder: Path) -> None:
        self._folder = folder.absolute()
        texts = [_text(path) for path in (fast, slow)]
        pythons = {found[1] for text in texts if (found := _PYTHON.search(text))}
        if len(pythons) > 1:
            raise TfperfError(
                f"{fast} and {slow} are for two Pythons, {' and '.join(sorted(pythons))}, of which no package can be "
                "moved: compare them with pytest --tfperf-against=PYTHON"
            )
        self._header = f"{found[0]}\n" if (found := _PYTHON.search(texts[0])) else ""
        self._fast, self._slow = (_requirements(text) for text in texts)
        both = sorted(self._fast.keys() | self._slow.keys())
        self._changed = [name for name in both if self._fast.get(name) != self._slow.get(name)]
        if not self._changed:
            raise TfperfError(f"{fast} and {slow} name the same packages: name two locks that differ")

    @property
    def key(self) -> list[str]:
        """What tells this search from others."""
        return [self._lock(0), self._lock(len(self._changed))]

    @property
    def names(self) -> list[str]:
        """Of each state, in order."""
        between = (f"up to {self._change(name)}" for name in self._changed[:-1])
        return ["the fast lock", *between, "the slow lock"]

    def state(self, index: int) -> State:
        """How a state is measured; making its environment takes minutes.

        Raises:
            TfperfError: pip can't install its packages.
        """
        lock = self._folder / "bisect" / f"packages-{index}.lock.txt"
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            lock.write_text(self._lock(index), "utf-8")
        except OSError as error:
            raise TfperfError(
                f"{lock} can't be written: {error.strerror}", next_step="Free some space, or give --dir"
            ) from None
        python = environment_of(lock, self._folder / "environments")
        return State(name=self.names[index], kind=self.noun, python=str(python))

    def about(self, index: int) -> list[tuple[str, str]]:
        """Which package it is."""
        return [("package", self._change(self._changed[index - 1]))]

    def close(self) -> None:
        """Do nothing: environments are kept."""

    def _lock(self, index: int) -> str:
        moved = self._changed[:index]
        found = {**self._fast, **{name: self._slow.get(name, "") for name in moved}}
        return self._header + "".join(f"{found[name]}\n" for name in sorted(found) if found[name])

    def _change(self, name: str) -> str:
        before, after = (lock.get(name, "none") for lock in (self._fast, self._slow))
        return f"{before} -> {after}"


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise TfperfError(f"{path} can't be read: {why}", next_step="Name a lock, as `pip freeze` writes it") from None


def _requirements(text: str) -> dict[str, str]:
    """Name -> its line, by the name that packages have in an index."""
    lines = (line.strip() for line in text.splitlines())
    named = [(found[0], line) for line in lines if (found := _NAME.match(line))]
    return {re.sub(r"[-_.]+", "-", name).lower(): line for name, line in named}
