"""The base as the other side of a session's checks: its code, its packages, and what is said of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, final

from pytest_tfperf.bench.other_side import Terms
from pytest_tfperf.core.command import Subject
from pytest_tfperf.core.selection import Selection
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.reports.numbers import duration
from pytest_tfperf.workers.git_history import Commit, merge_base, require_repository
from pytest_tfperf.workers.git_worktree import DIRTY, Checkouts, commit_of
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import Launcher
from pytest_tfperf.workers.own_code import Checkout, CheckoutLauncher
from pytest_tfperf.workers.virtual_environment import environment_of


def base_side(settings: Settings, selection: Selection, revision: str, lock: Path | None, option: str) -> BaseSide:
    """Check the base out, and make its environment where a lock is given.

    Args:
        settings: of the session.
        selection: its tests.
        revision: the branch that this one goes into.
        lock: a file of the repository; its text at the base says which packages the base runs with. None: the same.
        option: what messages call `revision`.

    Raises:
        TfperfError: git can't check it out, it lacks the tests' folder or the lock, or pip fails.
    """
    repository = require_repository(settings.root, option).resolve()
    base = merge_base(repository, revision, option)
    checkouts = Checkouts(repository, settings.dir / "checkouts")
    try:
        folder = checkouts.get(base.hash).resolve()
        checkout = Checkout(repository=repository, folder=folder, name=f"{revision} ({base.shown})")
        _require_tests(settings.root.resolve(), selection, checkout)
        python = sys.executable
        if lock is not None:
            python = str(environment_of(_there(lock, checkout, option), settings.dir / "environments"))
    except BaseException:
        checkouts.close()
        raise
    return BaseSide(base, commit_of(repository, besides=settings.baselines), checkout, checkouts, python)


@final
class BaseSide:
    """See `OtherSide`.

    Args:
        base: the merge base.
        head: the current commit, with DIRTY where files were changed.
        checkout: the base's code.
        checkouts: holds it until the session ends.
        python: runs the base.
    """

    terms: Final = Terms()
    may_lack_code: Final = True

    def __init__(self, base: Commit, head: str, checkout: Checkout, checkouts: Checkouts, python: str) -> None:
        self._checkout = checkout
        self._checkouts = checkouts
        self._interpreter = Interpreter(python, checkout.moved)
        self.facts: tuple[Mapping[str, str], Mapping[str, str]] = ({"commit": base.shown}, {"commit": head})
        self.announcement = tuple(_announcement(base, head, checkout, self.terms, python))

    def launchers(self, here: Launcher, launch: Callable[[Interpreter], Launcher]) -> tuple[Launcher, Launcher]:
        """See `OtherSide.launchers`."""
        has_own_packages = self._interpreter.python != sys.executable
        local = launch(self._interpreter)
        return CheckoutLauncher(local, self._interpreter, self._checkout, may_be_same=has_own_packages), here

    def refuse(self, subject: Subject) -> None:
        """Refuse nothing now: the launcher looks at what each workload and command runs."""

    def close(self) -> None:
        """See `OtherSide.close`."""
        self._checkouts.close()


def _announcement(base: Commit, head: str, checkout: Checkout, terms: Terms, python: str) -> list[str]:
    effort = terms.effort
    changed = ", with uncommitted changes" if head.endswith(DIRTY) else ""
    lines = [
        f"each check compares this checkout (b, {head.removesuffix(DIRTY)}{changed}) with {checkout.name} (a) instead "
        f"of a baseline, in at most {effort.max_pairs} pairs of runs or {duration(effort.max_seconds)} each"
    ]
    if head == base.shown:
        lines.append("the base is this commit itself, without changes: both sides are the same code")
    if python != sys.executable:
        lines.append(f"the base runs with packages of its own: {python}")
    return lines


def _require_tests(root: Path, selection: Selection, checkout: Checkout) -> None:
    """Refuse a base that has no folder of the tests, in which everything would be new."""
    folders = {(root / test.file).parent.resolve() for test in selection.tests if test.file} or {root}
    inside = [one.relative_to(checkout.repository) for one in folders if one.is_relative_to(checkout.repository)]
    if inside and not any((checkout.folder / one).is_dir() for one in inside):
        names = ", ".join(f"{one}/" for one in sorted(inside))
        raise TfperfError(
            f"the base {checkout.name} has no folder {names}, so it has nothing to compare with. Merge the tests "
            "first; until then measure without --tfperf-base"
        )


def _there(lock: Path, checkout: Checkout, option: str) -> Path:
    """The lock in the checkout."""
    real = lock.resolve()
    inside = real.is_relative_to(checkout.repository)
    there = checkout.folder / real.relative_to(checkout.repository) if inside else real
    if not there.is_file():
        raise TfperfError(
            f"{option}-lock: the base {checkout.name} has no {lock.name} there. Name a file that it has, or leave the "
            "option out: the base then runs with the packages of this Python"
        )
    return there
