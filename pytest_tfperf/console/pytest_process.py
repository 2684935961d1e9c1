"""pytest as a process of its own, for commands that start sessions."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from pytest_tfperf.console.output import note
from pytest_tfperf.console.session_settings import ini_file
from pytest_tfperf.core.setting import DEFAULT, Setting, variable
from pytest_tfperf.core.settings import TOLD
from pytest_tfperf.workers.process_end import die_with_parent

PROGRESS: Final = "tfperf: test "
"""The begin of the lines that a session prints while it measures."""

_OF_GITHUB: Final = ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")
_OF_OTHERS: Final = ("--junitxml", "--junit-xml", "--log-file", "--report-log", "--html")
"""Options of pytest and its plugins that name a report, and for which an empty name means none."""


def run_pytest(
    arguments: Sequence[str],
    told: Mapping[str, object],
    outputs: Collection[Setting[Any]],
    each_line: Callable[[str], object] = lambda _: None,
) -> tuple[int, str]:
    """Run a session of this Python's pytest, and return its exit status and output.

    The session is the command's own, and nobody's news: the user's reports, servers and channels don't get it.

    Ctrl-C reaches pytest, too, which is then waited for. Where this process is ended otherwise, the kernel sends pytest
    SIGTERM, on which it ends the session in order.

    Args:
        arguments: pytest's own.
        told: `slowed` or `bisect_step` of the session's `Settings`, as JSON has them.
        outputs: the settings that name where results go; they are left at their defaults.
        each_line: gets each line of the output as soon as it is printed.
    """
    silent = {variable(setting.name): DEFAULT for setting in outputs}
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_GITHUB}
    lines: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *arguments, *_no_reports(arguments, outputs)],
        env={**inherited, **silent, TOLD: json.dumps(told)},
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
                if line.startswith(PROGRESS):
                    note(line.removeprefix(PROGRESS).rstrip("\n"))
        except KeyboardInterrupt:
            process.communicate()
            raise
    return process.returncode, "".join(lines)


@contextmanager
def explained_interrupt(show: Callable[[str], object], kept: Callable[[], str]) -> Iterator[None]:
    """Show on Ctrl-C what is kept then, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        show(f"interrupted; {kept()}. The same command goes on, with --again it begins anew")
        raise


def _no_reports(arguments: Sequence[str], outputs: Collection[Setting[Any]]) -> list[str]:
    """Options that win over those of the command line and of the ini file's `addopts`."""
    ini = ini_file(Path.cwd())
    given = " ".join([*arguments, os.environ.get("PYTEST_ADDOPTS", ""), ini.values.get("addopts", "") if ini else ""])
    names = re.findall(r"--[\w-]+", given)  # a plugin that is not installed must not get its option
    of_others = [f"{option}=" for option in _OF_OTHERS if option in names]
    return [*of_others, *(f"{setting.spelled}={DEFAULT}" for setting in outputs if setting.is_option)]
