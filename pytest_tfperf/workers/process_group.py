"""The end of processes with their parent, and of whole groups, so that a killed pytest leaves none behind.

Run as a module with the parent's process id and a command: becomes that command, and gets SIGTERM when the parent dies.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int, by: signal.Signals | None = None) -> None:
    """Let the kernel send this process a signal, SIGKILL by default, when its parent dies (prctl(2); Linux only).

    Exits at once if the parent, `parent_pid`, has died already.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by or signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def kill_group(pid: int) -> None:
    """Send SIGKILL to a process and to its group: TensorFlow's preemption notifier swallows SIGTERM."""
    for kill in (os.killpg, os.kill):  # a worker that has just been forked has no group of its own yet
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    parent, *command = sys.argv[1:]
    die_with_parent(int(parent), signal.SIGTERM)  # mpirun and srun end their ranks on it
    os.execvp(command[0], command)
