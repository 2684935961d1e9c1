"""The end of processes with their parent, of groups, orphans and clients of MPS: a killed pytest leaves none behind.

Run as a module with the parent's process id and a command: becomes that command, and gets SIGTERM when the parent dies.
A program's supervisor imports this file and little else, so that it starts fast.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

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


def started_at(pid: int) -> int:
    """Return when a process began, in the kernel's ticks; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[19])
    except OSError:
        return 0


def kill_marked(variable: str, output: os.stat_result, since: int) -> None:
    """Send SIGKILL to each process that has this environment variable ("NAME=VALUE"), or writes to this output.

    So orphans are found, whatever groups and sessions they made for themselves. A process that cleared its environment
    is found by its output.

    Args:
        variable: which no other program has.
        output: a pipe or a terminal.
        since: `started_at` of the program: what is older is none of its own.
    """
    killed: set[int] = set()
    while left := {pid for pid in _pids() if started_at(pid) >= since and _is_marked(pid, variable, output)} - killed:
        killed |= left
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _pids() -> set[int]:
    """All processes but this one, which reads the output."""
    pids = {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()}
    return pids - {os.getpid()}


def _is_marked(pid: int, variable: str, output: os.stat_result) -> bool:
    process = Path(f"/proc/{pid}")
    try:
        if os.fsencode(variable) in (process / "environ").read_bytes().split(b"\0"):
            return True
        return any(_is_same(descriptor, output) for descriptor in (process / "fd").iterdir())
    except OSError:  # it is gone, or another user's
        return False


def _is_same(descriptor: Path, output: os.stat_result) -> bool:
    """Whether it is this output; each container has a /dev/pts/0, so its name does not tell."""
    try:
        # Other files are not asked: on a server that hangs they would not answer.
        is_alike = str(descriptor.readlink()).startswith(("pipe:[", "/dev/pts/"))
        return is_alike and os.path.samestat(descriptor.stat(), output)
    except OSError:  # it was closed
        return False


def kernel_oom_kills() -> int:
    """The kernel's counter of processes that its out-of-memory killer has ended since boot; 0 without a counter."""
    try:
        counters = Path("/proc/vmstat").read_text(encoding="ascii")
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in counters.splitlines() if line.startswith("oom_kill "))


# A client of CUDA's Multi-Process Service (MPS) that is killed while its work is on the GPU may leave the server, and
# with it all other clients, in an undefined state (NVIDIA's "Multi-Process Service", on early termination). So a worker
# gets time to end by itself, and before a signal the server is asked to end the client's contexts, which Volta and
# later can do at any time.

MPS_END_SECONDS = 10.0
"""The most that a worker may take to finish its window and end by itself."""


def mps_is_on(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether CUDA programs with these variables become clients of MPS: its daemon listens in this folder."""
    return Path(environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps", "control").exists()


def end_mps_clients(session: int) -> None:
    """End the contexts of all clients in a process session, if MPS is on; never raises.

    In a container the daemon may know them by other pids; then nothing can be done.
    """
    if not mps_is_on():
        return
    with suppress(OSError, subprocess.SubprocessError):
        for server in _numbers_of_mps("get_server_list"):
            for client in _numbers_of_mps(f"get_client_list {server}"):
                with suppress(OSError):
                    if os.getsid(client) == session:
                        _numbers_of_mps(f"terminate_client {server} {client}")


def _numbers_of_mps(command: str) -> list[int]:
    control = "nvidia-cuda-mps-control"
    done = subprocess.run([control], input=command, capture_output=True, text=True, timeout=10.0, check=False)
    return [int(word) for word in done.stdout.split() if word.isdecimal()]


if __name__ == "__main__":
    parent, *command = sys.argv[1:]
    die_with_parent(int(parent), signal.SIGTERM)  # mpirun and srun end their ranks on it
    os.execvp(command[0], command)
