"""The base as the other side of a session's checks: its code, its packages, and what is said of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, final

from pytest_tfperf.bench.comparing import Terms
from pytest_tfperf.core.command import Subject
from pytest_tfperf.core.selection import Selection
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import NotCompared, TfperfError
from pytest_tfperf.reports.numbers import duration
from pytest_tfperf.revisions.checkout import Checkout
from pytest_tfperf.revisions.checkout_launcher import CheckoutLauncher
from pytest_tfperf.revisions.git import DIRTY, Commit, commit_of, merge_base, require_repository
from pytest_tfperf.revisions.own_code import OwnCode
from pytest_tfperf.revisions.virtual_environment import environment_of
from pytest_tfperf.revisions.worktrees import Checkouts
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import Launcher


def base_side(
    settings: Settings,
    selection: Selection,
    revision: str,
    lock: Path | None,
    option: str,
    say: Callable[[str], None],
) -> BaseSide:
    """Check the base out, and make its environment where a lock is given.

    Args:
        settings: of the session.
        selection: its tests.
        revision: the branch that this one goes into.
        lock: a file of the repository; its text at the base says which packages the base runs with. None: the same.
        option: what messages call `revision`.
        say: shows a line while git or pip is at work.

    Raises:
        TfperfError: git can't check it out, it lacks the tests' folder or the lock, or pip fails.
    """
    repository = require_repository(settings.root, option).resolve()
    base = merge_base(repository, revision, option)
    checkouts = Checkouts(repository, settings.dir / "checkouts")
    try:
        folder = checkouts.get(base.hash, say).resolve()
        checkout = Checkout(
            repository=repository, folder=folder, name=f"{revision} ({base.shown})", beside=folder.parent
        )
        lacking = _require_tests(settings.root.resolve(), selection, checkout)
        python = sys.executable
        if lock is not None:
            python = str(environment_of(_there(lock, checkout, option), settings.dir / "environments", say))
    except BaseException:
        checkouts.close()
        raise
    return BaseSide(base, commit_of(repository, besides=settings.baselines), checkout, checkouts, python, lacking)


@final
class BaseSide:
    """See `OtherSide`.

    Args:
        base: the merge base.
        head: the current commit, with DIRTY where files were changed.
        checkout: the base's code.
        checkouts: holds it until the session ends.
        python: runs the base.
        lacking: tests whose folder it lacks, and that folder.
    """

    terms: Final = Terms()
    may_lack_code: Final = True

    def __init__(
        self,
        base: Commit,
        head: str,
        checkout: Checkout,
        checkouts: Checkouts,
        python: str,
        lacking: Mapping[str, Path],
    ) -> None:
        self._checkout = checkout
        self._lacking = lacking
        self._checkouts = checkouts
        self._interpreter = checkout.interpreter(python)
        self._own_code: Sequence[OwnCode] = ()
        self.facts: tuple[Mapping[str, str], Mapping[str, str]] = ({"commit": base.shown}, {"commit": head})
        self.announcement = tuple(_announcement(base, head, checkout, self.terms, python))

    def launchers(self, here: Launcher, launch: Callable[[Interpreter], Launcher]) -> tuple[Launcher, Launcher]:
        """See `OtherSide.launchers`."""
        has_own_packages = self._interpreter.python != sys.executable
        a = CheckoutLauncher(launch(self._interpreter), self._checkout, may_be_same=has_own_packages)
        current = replace(self._checkout, folder=self._checkout.repository, name="this checkout")
        b = CheckoutLauncher(here, current, may_be_same=has_own_packages, lacking=a)
        self._own_code = (a.own_code, b.own_code)
        return a, b

    @property
    def remarks(self) -> Sequence[str]:
        """See `OtherSide.remarks`."""
        return [remark for side in self._own_code for remark in side.remarks]

    def refuse(self, subject: Subject, test: str) -> None:  # noqa: ARG002  # the launcher looks at what it runs
        """Raise NotCompared where the base has no folder of the test."""
        if test in self._lacking:
            raise NotCompared(f"NEW: {self._checkout.name} has no folder {self._lacking[test]}/")

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


def _require_tests(root: Path, selection: Selection, checkout: Checkout) -> dict[str, Path]:
    """The tests whose folder the base lacks; one that lacks all of them is refused: everything would be new."""
    folders = {test.id: (root / test.file).parent.resolve() for test in selection.tests if test.file} or {"": root}
    inside = {
        test: one.relative_to(checkout.repository)
        for test, one in folders.items()
        if one.is_relative_to(checkout.repository)
    }
    lacking = {test: one for test, one in inside.items() if not (checkout.folder / one).is_dir()}
    if inside and len(lacking) == len(inside):
        names = ", ".join(f"{one}/" for one in sorted(set(inside.values())))
        raise TfperfError(
            f"the base {checkout.name} has no folder {names}, so it has nothing to compare with",
            next_step="Merge the tests first; until then measure without --tfperf-base",
        )
    return lacking


def _there(lock: Path, checkout: Checkout, option: str) -> Path:
    """The lock in the checkout."""
    real = lock.resolve()
    inside = real.is_relative_to(checkout.repository)
    there = checkout.folder / real.relative_to(checkout.repository) if inside else real
    if not there.is_file():
        raise TfperfError(
            f"{option}-lock: the base {checkout.name} has no {lock.name} there",
            next_step="Name a file that it has, or leave the "
            "option out: the base then runs with the packages of this Python",
        )
    return there
