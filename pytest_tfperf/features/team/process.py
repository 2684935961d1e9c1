"""The push of a session's history, in a process of its own that can be killed whatever it waits for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from pytest_tfperf.core.history_url import VARIABLE, HistoryUrl

SESSION_SECONDS: Final = 5.0
"""How long a session waits for its push."""


def push_new(folder: Path, url: HistoryUrl, seconds: float = SESSION_SECONDS) -> str:
    """Send what earlier pushes did not deliver; returns why some of it was not sent, "" where all was.

    What has arrived when the time is over stays. The process is killed then, because a driver may wait for a name
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
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"history not sent whole: {url} took more than {seconds:g} s. The next push sends the rest"
    if done.returncode == 0:
        return ""
    said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return f"history not sent: {said.removeprefix('tfperf: ')}. The next push sends it"
