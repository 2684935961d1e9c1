"""`--tfperf-base`: each check is a comparison with the code of the merge base."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import NOT_WITH_ANOTHER_SIDE, Settings
from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    from pytest_tfperf.bench.other_side import OtherSide
    from pytest_tfperf.bench.session import Session

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
    """The code of the merge base."""
    settings = session.settings
    base = settings.of(BASE)
    if not base:
        return None
    from pytest_tfperf.features.base.side import base_side

    return base_side(
        settings, session.selection, base, settings.of(LOCK), BASE.spelled, session.progress.say, session.opened
    )


FEATURE: Final = Feature(settings=(BASE, LOCK), prepare=prepare, other_side=other_side)
