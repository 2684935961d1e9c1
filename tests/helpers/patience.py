"""How long tests wait for what is to come: no claim of theirs, and far beyond what any machine takes."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
"""For what takes a moment: only a fault gets there, also where everything else stalls."""

SESSION_SECONDS = 600.0
"""For what imports TensorFlow, trains or compiles."""


def wait_for(condition: Callable[[], T], seconds: float = PATIENCE_SECONDS) -> T:
    """What the condition gives as soon as that is true; what it gave last where it never was."""
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def is_gone(pid: int) -> bool:
    """Whether a process has ended, also where nobody has asked for its status yet."""
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


@contextmanager
def running(program: str, *arguments: object, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A Python program that runs beside the test and not beyond it; one that hangs is killed, and has then ended."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as process:
        limit = threading.Timer(SESSION_SECONDS, process.kill)
        limit.start()
        try:
            yield process
        finally:
            limit.cancel()
            process.kill()
