"""A session's pull when it begins, and its push when it ends; neither fails it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.exit_status import EXIT_GREEN
from pytest_tfperf.core.history_url import VARIABLE, HistoryUrl
from pytest_tfperf.core.setting import Setting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.session_verdicts import SessionResult

HISTORY_URL: Final[Setting[HistoryUrl | None]] = Setting(
    name="history_url",
    default=None,
    parse=HistoryUrl,
    help="where the history travels: a git branch (git+., git+ssh://..., git+https://...#BRANCH), a folder, an address "
    "of fsspec (s3://...) or a PostgreSQL server; sessions pull when they begin, and on CI push when they end",
    is_option=False,
    is_secret=True,
    is_output=True,
)
HISTORY_PUSH: Final[Setting[bool | None]] = Setting(
    name="history_push",
    default=None,
    parse=parse.flag,
    help="whether sessions push when they end (default: on CI alone)",
    is_option=False,
)

# Variables that systems of continuous integration set: most of them the first one.
_OF_CI: Final = ("CI", "BUILD_BUILDID", "JENKINS_URL", "TEAMCITY_VERSION")


def pushes(asked: bool | None) -> bool:
    """Whether this session pushes by itself: as asked, or on CI alone."""
    return any(os.environ.get(name, "false") not in ("", "false", "0") for name in _OF_CI) if asked is None else asked


def check_stores(session: Session) -> Iterator[str]:
    """Pull before anything is judged; says what did not arrive."""
    from pytest_tfperf.features.sharing.sync import SESSION_SECONDS, in_a_process
    from pytest_tfperf.stores import documents

    settings = session.settings
    url = settings.of(HISTORY_URL)
    if url is None or settings.smoke:
        return
    machines = [f"--machine={machine}" for machine in session.machines]
    status, lines = in_a_process(["pull", *machines], url, settings.dir, settings.root)
    if status is None:
        so_far = f" ({lines[-1]})" if lines else ""
        took = f"{url} took more than {SESSION_SECONDS:g} s{so_far}"
        yield f"history not pulled whole: {took}. The next pull brings the rest"
    elif status != EXIT_GREEN:
        yield f"history not pulled: {(lines or [f'exit status {status}'])[-1]}"
    yield from [line for line in lines if documents.LEFT_OUT in line][-1:]


def session_ended(session: Session, result: SessionResult) -> Iterator[str]:
    """Send this session and those of its machines that earlier pushes did not deliver."""
    from pytest_tfperf.features.sharing.sync import SESSION_SECONDS, in_a_process

    settings = session.settings
    url = settings.of(HISTORY_URL)
    if not result.keeps_history:
        return
    if url is None:
        if not os.environ.get(VARIABLE, parse.DEFAULT).strip():
            yield f"history not sent: {VARIABLE} is empty, as a secret is in jobs that may not have it"
        return
    machines = sorted({f"--machine={m.machine}" for m in result.results})
    if not machines or not pushes(settings.of(HISTORY_PUSH)):
        return
    status, lines = in_a_process(["push", *machines], url, settings.dir, settings.root)
    if status is None:
        yield f"history not sent whole: {url} took more than {SESSION_SECONDS:g} s. The next push sends the rest"
    elif status != EXIT_GREEN:
        yield f"history not sent: {(lines or [f'exit status {status}'])[-1]}. The next push sends it"


FEATURE: Final = Feature(settings=(HISTORY_URL, HISTORY_PUSH), check_stores=check_stores, session_ended=session_ended)
