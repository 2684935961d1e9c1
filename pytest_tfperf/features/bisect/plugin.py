"""A session as a step of `tfperf bisect`, or of `git bisect run`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings

if TYPE_CHECKING:
    from pytest_tfperf.bench.other_side import OtherSide
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.session_verdicts import SessionResult

STEP: Final[Setting[Path | None]] = Setting(
    name="bisect_step",
    default=None,
    parse=parse.file,
    help="file with a step of `tfperf bisect`, which sets this for the sessions that it starts",
    is_option=False,
    of_one_session=True,
)
GIT_BISECT: Final[Setting[bool]] = Setting(
    name="git_bisect",
    default=False,
    parse=parse.flag,
    help="for `git bisect run`: exit with 125, which skips the commit, where a test was not decided",
    of_one_session=True,
)


def other_side(session: Session) -> OtherSide | None:
    """Return the good state, and the state that is compared with it, if the session is a step."""
    path = session.settings.of(STEP)
    if path is None:
        return None
    from pytest_tfperf.bench.other_side import OtherSide
    from pytest_tfperf.features.bisect.step import read

    return read(OtherSide, path)


def session_ended(session: Session, result: SessionResult) -> list[str]:
    """Write the answer for `tfperf bisect`."""
    path = session.settings.of(STEP)
    if path is not None:
        from pytest_tfperf.features.bisect.step import answer_file, answer_of, write

        write(answer_file(path), answer_of(result))
    return []


def usage_status(arguments: Sequence[str]) -> int | None:
    """For `git bisect run`, which takes pytest's 4 for bad: a commit may lack the test's file or break conftest.py."""
    if GIT_BISECT.spelled not in arguments and not _asked_by(os.environ.get(parse.variable(GIT_BISECT.name))):
        return None
    from pytest_tfperf.features.bisect.step import SKIP

    return SKIP


def _asked_by(variable: str | None) -> bool:
    """Whether the variable asks for it. A text that is neither true nor false is a usage error, not a bad commit."""
    try:
        return variable is not None and parse.flag(variable)
    except ValueError:
        return variable != parse.DEFAULT


def exit_status(settings: Settings, result_of: Callable[[], SessionResult], status: int) -> int | None:
    """Return the status for `git bisect run`."""
    if not settings.of(GIT_BISECT):
        return None
    from pytest_tfperf.features.bisect.step import git_status

    return git_status(result_of(), status)


FEATURE: Final = Feature(
    settings=(STEP, GIT_BISECT),
    comes_first=True,  # its sessions compare the two states of the step, whatever pytest's ini file says
    other_side=other_side,
    exit_status=exit_status,
    usage_status=usage_status,
    session_ended=session_ended,
)
