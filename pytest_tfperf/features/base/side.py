"""The base as the other side of a session's checks: its code, its packages, and the announcement."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from pytest_tfperf.bench.other_side import OtherSide, State
from pytest_tfperf.core.selection import Selection
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.judging.pairs import MAX_SECONDS, MOST_PAIRS
from pytest_tfperf.reports.numbers import duration
from pytest_tfperf.revisions.checkout import Checkout
from pytest_tfperf.revisions.git import DIRTY, commit_of, merge_base, require_repository
from pytest_tfperf.revisions.pythons import environment_of
from pytest_tfperf.revisions.worktrees import Worktrees


def base_side(
    settings: Settings,
    selection: Selection,
    revision: str,
    lock: Path | None,
    option: str,
    say: Callable[[str], None],
    opened: ExitStack,
) -> OtherSide:
    """Check the base out, and make its environment if a lock is given.

    Args:
        settings: of the session.
        selection: the session's tests.
        revision: the branch to merge into.
        lock: a file of the repository that names the base's packages, read as it is in the base; None if both sides
            run with the same packages.
        option: the name of `revision` in messages.
        say: shows a line while git or pip is at work.
        opened: holds the checkout until the session ends.

    Raises:
        TfperfError: git can't check the base out, the base lacks the tests' folder or the lock, or pip fails.
    """
    repository = require_repository(settings.root, option).resolve()
    base = merge_base(repository, revision, option)
    checkouts = Worktrees(repository, settings.dir / "checkouts")
    opened.callback(checkouts.close)
    folder = checkouts.get(base.hash, say).resolve()
    there = Checkout(repository=repository, folder=folder, name=f"{revision} ({base.shown})", beside=folder.parent)
    here = replace(there, folder=repository, name="this checkout")
    lacking = _require_tests(settings.root.resolve(), selection, there)
    python = sys.executable
    if lock is not None:
        python = str(environment_of(_lock_in(there, lock, option), settings.dir / "environments", say))
    head = commit_of(repository, besides=settings.baselines)
    a = State(title=there.name, facts={"commit": base.shown}, python=python, checkout=there)
    b = State(title=here.name, facts={"commit": head}, checkout=here)
    return OtherSide(a=a, b=b, announcement=tuple(_announcement(a, b)), may_lack_code=True, lacking=lacking)


def _announcement(a: State, b: State) -> Iterator[str]:
    head = b.facts["commit"]
    changed = ", with uncommitted changes" if head.endswith(DIRTY) else ""
    yield (
        f"each check compares {b.title} (b, {head.removesuffix(DIRTY)}{changed}) with {a.title} (a) instead "
        f"of a baseline, in at most {MOST_PAIRS} pairs of runs or {duration(MAX_SECONDS)} each"
    )
    if a.facts == b.facts:
        yield "the base is this commit itself, without changes: both sides are the same code"
    if a.python != b.python:
        yield f"the base runs with packages of its own: {a.python}"


def _require_tests(root: Path, selection: Selection, checkout: Checkout) -> dict[str, str]:
    """Return the tests whose folder the base lacks, test -> folder.

    Raises:
        TfperfError: it lacks the folders of all tests, so every test would be new.
    """
    folders = {test.id: (root / test.file).parent.resolve() for test in selection.tests if test.file} or {"": root}
    inside = {
        test: folder.relative_to(checkout.repository)
        for test, folder in folders.items()
        if folder.is_relative_to(checkout.repository)
    }
    lacking = {test: str(folder) for test, folder in inside.items() if not (checkout.folder / folder).is_dir()}
    if inside and len(lacking) == len(inside):
        names = ", ".join(f"{folder}/" for folder in sorted(set(lacking.values())))
        raise TfperfError(
            f"the base {checkout.name} has no folder {names}, so it has nothing to compare with",
            next_step="Merge the tests first; until then measure without --tfperf-base",
        )
    return lacking


def _lock_in(checkout: Checkout, lock: Path, option: str) -> Path:
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
