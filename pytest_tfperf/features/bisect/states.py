"""The states among which `tfperf bisect` searches: commits, or environments from a fast lock to a slow one."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from pytest_tfperf.bench.comparing import State
from pytest_tfperf.errors import TfperfError, worded
from pytest_tfperf.judging.lasting_changes import changes_of
from pytest_tfperf.revisions.checkout import Checkout
from pytest_tfperf.revisions.git import DIRTY, commit_named, commits_after, require_repository
from pytest_tfperf.revisions.pythons import environment_of
from pytest_tfperf.revisions.worktrees import Worktrees
from pytest_tfperf.stores.baseline_file import BaselineStore
from pytest_tfperf.stores.history import History
from pytest_tfperf.workers.failures import last_lines
from pytest_tfperf.workers.processes import Interpreter

_ASKED_BY: Final = "tfperf bisect"


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """The states of a search, in order; state 0 is good."""

    key: tuple[str, ...]  # distinguishes this search from others
    names: Sequence[str]
    state: Callable[[int], State]  # returns a state as workers run it; a TfperfError skips the state
    about: Callable[[int], list[tuple[str, str]]]  # returns facts to show of the first slow state


def range_of(arguments: argparse.Namespace, project: Path) -> tuple[str, str]:
    """Return the good and the bad revision: as given, from the history's last lasting slowdown, or the baseline's row.

    Raises:
        TfperfError: nothing says which commit was good.
    """
    if arguments.good:
        return arguments.good, arguments.bad or "HEAD"
    history, test = History(arguments.dir / "history.sqlite"), arguments.test
    results = list(history.values(test=test, figure="")) if history.database.exists else []
    if results and not arguments.bad:
        changes = (change for change in changes_of(history.values(figure=""), test=test) if change.size < 0)
        if slowdowns := [change for change in changes if change.commit_before and change.commit_after]:
            return slowdowns[-1].commit_before.removesuffix(DIRTY), slowdowns[-1].commit_after.removesuffix(DIRTY)
    if measured := [result for result in results if not result.is_slowed_on_purpose]:
        row = BaselineStore(arguments.baselines).load(measured[-1].machine).get(measured[-1].key)
        if row is not None and row.commit:
            return row.commit.removesuffix(DIRTY), arguments.bad or "HEAD"
    raise TfperfError(
        f"neither the history nor a baseline in {project} says when {arguments.test} was fast: name a commit, "
        "--good=REV"
    )


def commit_states(project: Path, good: str, bad: str, folder: Path, opened: ExitStack, build: str = "") -> States:
    """Return the good commit and the commits after it, up to the bad one.

    `opened` holds the checkouts, in each of which the shell command `build` builds the project.

    Raises:
        TfperfError: a revision is no commit, or good is no ancestor of bad.
    """
    repository = require_repository(project, _ASKED_BY).resolve()
    first, last = (commit_named(repository, revision, _ASKED_BY) for revision in (good, bad))
    commits = [first, *commits_after(repository, first, last, _ASKED_BY)]
    if len(commits) < 2:
        raise TfperfError(f"{good} and {bad} are the same commit, {first.shown}: name an earlier --good")
    checkouts = Worktrees(repository, folder.absolute() / "checkouts")
    opened.callback(checkouts.close)

    built: set[int] = set()

    def state(index: int) -> State:
        # Where a program changed a tracked file of its checkout, it is checked out anew, and must be built again.
        name, checked_out = commits[index].shown, list[str]()
        code = checkouts.get(commits[index].hash, checked_out.append).resolve()
        if build and (checked_out or index not in built):
            _build(build, code)
            built.add(index)
        checkout = Checkout(repository=repository, folder=code, name=name, beside=code.parent)
        return State(title=name, facts={"commit": name}, checkout=checkout)

    def about(index: int) -> list[tuple[str, str]]:
        commit = commits[index]
        author = f"{commit.author}, {commit.date}"
        return [("author", author), ("subject", commit.subject), ("show", f"git show {commit.shown}")]

    names = [commit.shown for commit in commits]
    return States(key=(first.hash, last.hash, build), names=names, state=state, about=about)


def _build(command: str, folder: Path) -> None:
    with TemporaryFile() as output:  # a process that the build leaves behind would hold a pipe open
        done = subprocess.run(
            command,
            shell=True,
            cwd=folder,
            env=Interpreter(sys.executable).environment(),  # without the session's secrets
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        if done.returncode:
            output.seek(0)
            fact = f"{command} ended with status {done.returncode} in {folder}"
            raise TfperfError(fact, *last_lines(output.read().decode("utf-8", "replace")))


_PYTHON: Final = re.compile(r"^# python: (\d+\.\d+)\S*$", re.MULTILINE)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def package_states(fast: Path, slow: Path, folder: Path) -> States:
    """Return the fast environment, then a state for each package of the slow lock that differs, by the package's name.

    Each state is an environment, which is made once and kept. An environment that pip can't make is skipped. The locks
    are as `pip freeze` and --update-baselines write them.

    Raises:
        TfperfError: a lock can't be read, or they differ in nothing, or in Python itself.
    """
    texts = []
    for path in (fast, slow):
        with worded(path, "read", "Name a lock, as `pip freeze` writes it"):
            texts.append(path.read_text("utf-8"))
    pythons = {match[1]: f"{match[0]}\n" for text in reversed(texts) if (match := _PYTHON.search(text))}
    if len(pythons) > 1:
        raise TfperfError(
            f"{fast} and {slow} are for two Pythons, {' and '.join(sorted(pythons))}, of which no package can be "
            "moved: compare them with pytest --tfperf-against=PYTHON"
        )
    header = "".join(pythons.values())
    before, after = (_requirements(text) for text in texts)
    moved = [name for name in sorted(before | after) if before.get(name) != after.get(name)]
    if not moved:
        raise TfperfError(f"{fast} and {slow} name the same packages: name two locks that differ")
    changes = [f"{before.get(name, 'none')} -> {after.get(name, 'none')}" for name in moved]
    names = ["the fast lock", *(f"up to {change}" for change in changes[:-1]), "the slow lock"]

    def lock(index: int) -> str:
        lines = before | {name: after.get(name, "") for name in moved[:index]}
        return header + "".join(f"{lines[name]}\n" for name in sorted(lines) if lines[name])

    def state(index: int) -> State:
        path = folder.absolute() / "bisect" / f"packages-{index}.lock.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(lock(index), "utf-8")
        python = environment_of(path, folder.absolute() / "environments")
        return State(title=names[index], facts={"packages": names[index]}, python=str(python))

    def about(index: int) -> list[tuple[str, str]]:
        return [("package", changes[index - 1])]

    return States(key=(lock(0), lock(len(moved))), names=names, state=state, about=about)


def _requirements(text: str) -> dict[str, str]:
    """Return each package's line, by the name that the package has in an index."""
    lines = (line.strip() for line in text.splitlines())
    named = [(match[0], line) for line in lines if (match := _NAME.match(line))]
    return {re.sub(r"[-_.]+", "-", name).lower(): line for name, line in named}
