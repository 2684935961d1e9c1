"""pytest as a process of its own, for commands that start sessions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pytest_tfperf.workers.process_group import die_with_parent


def run_pytest(
    arguments: Sequence[str], environment: Mapping[str, str], each_line: Callable[[str], object] = lambda _: None
) -> tuple[int, str]:
    """Run a session of this Python's pytest, and return its exit status and output.

    Ctrl-C reaches pytest, too, which is then waited for. Where this process is ended otherwise, the kernel sends pytest
    SIGTERM, on which it ends the session in order.

    Args:
        arguments: of pytest.
        environment: all of its variables.
        each_line: gets each line of the output as soon as it is printed.
    """
    lines: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=partial(die_with_parent, os.getpid(), signal.SIGTERM),
    ) as process:
        assert process.stdout is not None, "it is a pipe"
        try:
            for line in process.stdout:
                lines.append(line)
                each_line(line.rstrip("\n"))
        except KeyboardInterrupt:
            process.communicate()
            raise
    return process.returncode, "".join(lines)
