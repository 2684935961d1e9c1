"""CUDA's Multi-Process Service (MPS): how its clients end without harm to others.

A client that is killed while its work is on the GPU may leave the server, and with it all other clients, in an
undefined state (NVIDIA's "Multi-Process Service", on early termination). So a worker gets time to end by itself, and
before a signal the server is asked to end the client's contexts, which Volta and later can do at any time.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

END_SECONDS = 10.0
"""The most that a worker may take to finish its window and end by itself."""

_ANSWER_SECONDS = 10.0
_CONTROL = "nvidia-cuda-mps-control"


def is_on(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether CUDA programs with these variables become clients of MPS: its daemon listens in this folder."""
    return Path(environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps", "control").exists()


def end_clients(session: int) -> None:
    """End the contexts of all clients in a process session, if MPS is on; never raises.

    In a container the daemon may know them by other pids; then nothing can be done.
    """
    if not is_on():
        return
    with suppress(OSError, subprocess.SubprocessError):
        for server in _pids("get_server_list"):
            for client in _pids(f"get_client_list {server}"):
                if _session_of(client) == session:
                    _ask(f"terminate_client {server} {client}")


def _pids(command: str) -> Iterator[int]:
    return (int(word) for word in _ask(command).split() if word.isdecimal())


def _ask(command: str) -> str:
    done = subprocess.run(
        [_CONTROL], input=command, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
    )
    return done.stdout


def _session_of(pid: int) -> int | None:
    with suppress(OSError):
        return os.getsid(pid)
    return None
