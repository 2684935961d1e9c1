"""The push of a session's history."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.history_url import VARIABLE, HistoryUrl
from pytest_tfperf.core.setting import Setting

if TYPE_CHECKING:
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.session_verdicts import SessionResult

HISTORY_URL: Final[Setting[HistoryUrl | None]] = Setting(
    name="history_url",
    default=None,
    parse=HistoryUrl,
    help="a team's PostgreSQL server, to which each session sends its history",
    is_option=False,
    is_secret=True,
    is_output=True,
)

SESSION_SECONDS: Final = 5.0  # how long a session waits for its push


def session_ended(session: Session, result: SessionResult) -> list[str]:
    """Send what earlier pushes did not deliver."""
    url = session.settings.of(HISTORY_URL)
    if not result.keeps_history:
        return []
    if url is None:
        if os.environ.get(VARIABLE, parse.DEFAULT).strip():
            return []
        return [f"history not sent: {VARIABLE} is empty, as a secret is in jobs that may not have it"]
    said = push_new(session.settings.dir, url)
    return [said] if said else []


def push_new(folder: Path, url: HistoryUrl) -> str:
    """Send what earlier pushes did not deliver; returns why some of it was not sent, "" where all was.

    Rows that arrived within the time stay. The process is killed then, because a driver may wait for a name
    server, or for a network that drops packets, longer than any limit of its own.
    """
    command = [sys.executable, "-P", "-m", "pytest_tfperf.cli", "history", "push", "--new", "--history", str(folder)]
    try:
        done = subprocess.run(
            command,
            env=os.environ | {VARIABLE: url.secret},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SESSION_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"history not sent whole: {url} took more than {SESSION_SECONDS:g} s. The next push sends the rest"
    if done.returncode == 0:
        return ""
    said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return f"history not sent: {said.removeprefix('tfperf: ')}. The next push sends it"


FEATURE: Final = Feature(settings=(HISTORY_URL,), session_ended=session_ended)
