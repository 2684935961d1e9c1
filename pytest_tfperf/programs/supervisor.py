"""Runs a user's command so that no process is left, whatever the command starts and however pytest ends.

Run as a module with the parent's process id, the seconds that the command gets to end after SIGTERM, and the command.
The supervisor adopts every process that the command starts, even one that left its process group. SIGTERM, which the
kernel also sends when the parent dies, ends the command. The supervisor's exit status is the command's, or 128 + the
signal that ended it: a supervisor that is itself ended by a signal was killed by somebody else.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from pytest_tfperf.workers.process_end import die_with_parent, end_mps_clients

_PR_SET_CHILD_SUBREAPER = 36
_OURS = {signal.SIGTERM, signal.SIGCHLD}

MOST_STOPPED_SECONDS = 900.0
"""A program that its driver has stopped goes on after this time, also where the driver hangs."""


def main() -> None:
    """Run the command, and end as it ended."""
    parent, grace_seconds, *command = sys.argv[1:]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)
    die_with_parent(int(parent), signal.SIGTERM)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        # If this process is killed, the kernel ends the command.
        prepare = partial(_prepare, os.getpid(), before)
        process = subprocess.Popen(command, start_new_session=True, preexec_fn=prepare)
    except OSError as error:
        sys.exit(f"{command[0]} can't be started: {error.strerror}")
    status = _wait(process.pid)
    if status is None:
        end_mps_clients(process.pid)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        _let_go_on(os.getpid())  # the driver may have stopped it
        status = _wait(process.pid, time.monotonic() + float(grace_seconds))
    ended = _end_all(process.pid)
    code = os.waitstatus_to_exitcode(ended if status is None else status)
    sys.exit(code if code >= 0 else 128 - code)


def _prepare(parent: int, mask: set[signal.Signals | int]) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    die_with_parent(parent)


def _wait(pid: int, deadline: float | None = None) -> int | None:
    """This child's wait status, as of waitpid(2); None if SIGTERM or the deadline came first."""
    while True:
        while (ended := _reap(os.WNOHANG)) is not None:
            if ended[0] == pid:
                return ended[1]
        if deadline is None:
            received = signal.sigtimedwait(_OURS, MOST_STOPPED_SECONDS)
            if received is None:
                _let_go_on(os.getpid())
            elif received.si_signo == signal.SIGTERM:
                return None
        elif signal.sigtimedwait({signal.SIGCHLD}, max(0.0, deadline - time.monotonic())) is None:
            return None


def _end_all(pid: int) -> int:
    """Kill all children, and processes that become children, until none is left; returns the wait status of `pid`."""
    status = 0
    while True:
        for child in _children(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        ended = _reap(0)
        if ended is None:
            return status
        if ended[0] == pid:
            status = ended[1]


def _reap(options: int) -> tuple[int, int] | None:
    """A child that has ended, and its wait status; None without such a child."""
    try:
        pid, status = os.waitpid(-1, options)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _let_go_on(parent: int) -> None:
    """Continue all stopped processes below this one."""
    for child in _children(parent):
        with suppress(OSError):
            if Path(f"/proc/{child}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0] == "T":
                os.kill(child, signal.SIGCONT)
        _let_go_on(child)


def _children(parent: int) -> list[int]:
    found: list[int] = []
    for thread in Path(f"/proc/{parent}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, thread.read_text().split())
    return found


if __name__ == "__main__":
    main()
