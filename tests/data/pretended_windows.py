"""Pretends that this is Windows: the modules and names that only Unix has are missing from here on (`pytest -p`)."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import tempfile

import psutil

_MODULES = {"crypt", "fcntl", "grp", "pty", "resource", "syslog", "termios", "tty"}
_NAMES = {
    os: """fork getgid getloadavg getpgid killpg mkfifo openpty pidfd_open sched_getaffinity setsid statvfs sysconf
        O_CLOEXEC O_NOFOLLOW""",
    signal: "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGQUIT SIGSTOP SIGUSR1 SIGUSR2 pthread_sigmask setitimer sigwait",
    socket: "AF_UNIX",
}
_LOADED = (psutil, subprocess, tempfile)  # they have another half for Windows, and are not what is tried here


class _Refuses:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in _MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


for name in _MODULES:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, _Refuses)
for module, names in _NAMES.items():
    for name in names.split():
        vars(module).pop(name, None)
io._WindowsConsoleIO = type("NoConsole", (), {})
sys.platform = "win32"
