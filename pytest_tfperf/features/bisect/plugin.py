"""A session as a step of `tfperf bisect`."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature

if TYPE_CHECKING:
    from pytest_tfperf.bench.comparing import OtherSide
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.session_verdicts import SessionResult


def other_side(session: Session) -> OtherSide | None:
    """Return the good state, and the state that is compared with it."""
    from pytest_tfperf.bench.comparing import OtherSide
    from pytest_tfperf.features.bisect.step import read

    return None if session.settings.bisect_step is None else read(OtherSide, session.settings.bisect_step)


def session_ended(session: Session, result: SessionResult) -> list[str]:
    """Write the answer for `tfperf bisect`."""
    if session.settings.bisect_step is not None:
        from pytest_tfperf.features.bisect.step import answer_file, answer_of, write

        write(answer_file(session.settings.bisect_step), answer_of(result))
    return []


FEATURE: Final = Feature(
    asked=attrgetter("bisect_step"),
    comes_first=True,  # its sessions compare the two states of the step, whatever pytest's ini file says
    other_side=other_side,
    session_ended=session_ended,
)
