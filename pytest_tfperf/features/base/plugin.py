"""`--tfperf-base`: each check is a comparison with the code of the merge base."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import NOT_WITH_ANOTHER_SIDE, Settings
from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_tfperf.bench.comparing import OtherSide, State
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.selection import SelectedTest
    from pytest_tfperf.revisions.checkout import Checkout

BASE: Final[Setting[str]] = Setting(
    name="base",
    default="",
    parse=str,
    help="compare with the commit where this branch left REV, not with baselines",
    metavar="REV",
    excludes={"against": "each of them is the other side of every check", **NOT_WITH_ANOTHER_SIDE},
)
LOCK: Final[Setting[Path | None]] = Setting(
    name="base_lock",
    default=None,
    parse=parse.file,
    help="run the base with the packages that this lock file names there; pip installs them once",
    metavar="FILE",
)


def prepare(settings: Settings) -> None:
    """Refuse a base that is no commit, before tests are collected."""
    base, lock = settings.of(BASE), settings.of(LOCK)
    if lock is not None and not base:
        raise TfperfError(f"{LOCK.spelled} is for {BASE.spelled}=REV: give both, or neither")
    if base:
        from pytest_tfperf.revisions.git import merge_base, require_repository

        merge_base(require_repository(settings.root, BASE.spelled), base, BASE.spelled)


def other_side(session: Session) -> OtherSide | None:
    """The code of the merge base, checked out, with an environment of its own if a lock is given.

    Raises:
        TfperfError: git can't check the base out, the base lacks the tests' folder or the lock, or pip fails.
    """
    settings, say = session.settings, session.progress.say
    revision, lock = settings.of(BASE), settings.of(LOCK)
    if not revision:
        return None
    from pytest_tfperf.bench.comparing import OtherSide, State
    from pytest_tfperf.revisions.checkout import Checkout
    from pytest_tfperf.revisions.git import commit_of, merge_base, require_repository
    from pytest_tfperf.revisions.pythons import environment_of
    from pytest_tfperf.revisions.worktrees import Worktrees

    repository = require_repository(settings.root, BASE.spelled).resolve()
    base = merge_base(repository, revision, BASE.spelled)
    checkouts = Worktrees(repository, settings.dir / "checkouts")
    session.opened.callback(checkouts.close)
    folder = checkouts.get(base.hash, say).resolve()
    there = Checkout(repository=repository, folder=folder, name=f"{revision} ({base.shown})", beside=folder.parent)
    here = replace(there, folder=repository, name="this checkout")
    lacking = _require_tests(settings.root.resolve(), session.selection, there)
    python = sys.executable
    if lock is not None:
        python = str(environment_of(_lock_in(there, lock), settings.dir / "environments", say))
    head = commit_of(repository, besides=settings.baselines)
    a = State(title=there.name, facts={"commit": base.shown}, python=python, checkout=there)
    b = State(title=here.name, facts={"commit": head}, checkout=here)
    return OtherSide(a=a, b=b, announcement=tuple(_announcement(a, b)), may_lack_code=True, lacking=lacking)


def _announcement(a: State, b: State) -> Iterator[str]:
    from pytest_tfperf.judging.pairs import MAX_SECONDS, MOST_PAIRS
    from pytest_tfperf.reports.numbers import duration
    from pytest_tfperf.revisions.git import DIRTY

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


def _require_tests(root: Path, selection: Mapping[str, SelectedTest], checkout: Checkout) -> dict[str, str]:
    """Return the tests whose folder the base lacks, test -> folder."""
    folders = {test.id: (root / test.file).parent.resolve() for test in selection.values() if test.file} or {"": root}
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


def _lock_in(checkout: Checkout, lock: Path) -> Path:
    real = lock.resolve()
    inside = real.is_relative_to(checkout.repository)
    there = checkout.folder / real.relative_to(checkout.repository) if inside else real
    if not there.is_file():
        raise TfperfError(
            f"{LOCK.spelled}: the base {checkout.name} has no {lock.name} there",
            next_step="Name a file that it has, or leave the "
            "option out: the base then runs with the packages of this Python",
        )
    return there


FEATURE: Final = Feature(settings=(BASE, LOCK), prepare=prepare, other_side=other_side)
