"""Telling the channels of `tfperf_notify` what is new when a session ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.session_verdicts import SessionResult
    from pytest_tfperf.features.notify.channels import Channel
    from pytest_tfperf.features.notify.news import Event


def _channels(text: str) -> tuple[Channel, ...]:
    from pytest_tfperf.features.notify.channels import channels

    return channels(text)


NOTIFY: Final[Setting[tuple[Channel, ...]]] = Setting(
    name="notify",
    default=(),
    parse=_channels,
    help="who hears of each new loss and recovery, one a line: webhook, slack or teams with a URL or the variable that "
    "holds it, github OWNER/REPO, gitlab PROJECT, command PROGRAM; owner=NAME before it for one owner's tests",
    is_option=False,
    is_secret=True,  # a webhook's URL is one
    is_output=True,
)


def session_ended(session: Session, result: SessionResult) -> Iterator[str]:
    """Tell each channel what it does not know yet."""
    settings = session.settings
    if not result.keeps_history or result.is_compared or settings.update_baselines:
        return
    named = settings.of(NOTIFY)
    if not named:
        if not os.environ.get(variable := parse.variable(NOTIFY.name), parse.DEFAULT).strip():
            yield f"nobody was notified: {variable} is empty, as a secret is in jobs that may not have it"
        return
    from pytest_tfperf.features.notify.events import gone, session_events
    from pytest_tfperf.features.notify.telling import deliveries, tell

    now = datetime.now(UTC).isoformat(timespec="seconds")
    facts = session_events(
        result, _known(session, result), settings.rerun, now, judges_drift=bool(settings.values.get("fail_on_drift"))
    )

    def end_of(event: Event) -> Event | None:
        why = _why_gone(session, result, event)
        return gone(event, why, now) if why else None

    found, lines = deliveries(named, facts, settings.dir, session=session.id, gone=end_of)
    yield from lines
    yield from tell(found, settings.dir, settings.root)


def _known(session: Session, result: SessionResult) -> dict[str, str]:
    """Return the machine of each test that could not be measured and that an earlier session measured."""
    known = {}
    with suppress(TfperfError):  # the summary says it where the history can't be read
        for test in result.not_measured:
            if any(other != session.id for other in session.history.values_of("session", test=test)):
                known[test] = session.history.values_of("machine", test=test)[0]
    return known


_LATELY: Final = timedelta(days=14)


def _why_gone(session: Session, result: SessionResult, event: Event) -> str:
    """Return why a test that channels were told of is not measured any more; "" where it may be.

    A test that is not selected, fails to be collected, is of another machine, of a branch that this one does not have,
    or of another project with the same folder of results, is not gone.
    """
    from pytest_tfperf.core.past import moment
    from pytest_tfperf.revisions.git import DIRTY, is_ancestor

    test, root = event.test, session.settings.root
    if not test or event.machine not in {m.machine for m in result.results} or not session.is_gone(test):
        return ""
    function, _, parameters = test.partition("[")
    lately = datetime.now(UTC) - moment(event.time) < _LATELY
    if parameters and lately and any(other.startswith(f"{function}[") for other in session.collected):
        return ""  # an option or a variable may choose the parameters of a session
    commit = event.commit.removesuffix(DIRTY)
    if commit and not is_ancestor(root, commit):
        return ""
    return f"{test.partition('::')[0]} no longer has this test, so it is no longer measured: renamed, or deleted"


FEATURE: Final = Feature(settings=(NOTIFY,), session_ended=session_ended)
