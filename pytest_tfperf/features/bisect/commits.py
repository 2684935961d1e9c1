"""The commits of a search: from which to which, and how each is measured."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final, final

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.bisect.step import State
from pytest_tfperf.judging.lasting_changes import changes_of
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.history import History
from pytest_tfperf.workers.git_history import Commit, commit_named, commits_after, require_repository
from pytest_tfperf.workers.git_worktree import DIRTY, Checkouts

_ASKED_BY: Final = "tfperf bisect"


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
