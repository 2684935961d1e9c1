"""pytest as a process of its own, for commands that start sessions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence


def run_pytest(
    arguments: Sequence[str], environment: Mapping[str, str], each_line: Callable[[str], object] = lambda _: None
) -> tuple[int, str]:
    """Run a session of this Python's pytest, and return its exit status and output.

    Ctrl-C reaches pytest, too, which is then waited for.

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
