"""The other side of a session's checks: the same code under another Python, with other packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pytest_tfperf.bench.comparing import Terms
from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import Launcher


class AnotherPython:
    """See `OtherSide`; `python` is the interpreter's path."""

    facts: Final[tuple[Mapping[str, str], Mapping[str, str]]] = ({}, {})
    terms: Final = Terms()
    may_lack_code: Final = False

    def __init__(self, python: str) -> None:
        self._python = python
        self.announcement = (f"each check compares this Python (b) with {python} (a) instead of a baseline",)

    def launchers(self, here: Launcher, launch: Callable[[Interpreter], Launcher]) -> tuple[Launcher, Launcher]:
        """See `OtherSide.launchers`."""
        return launch(Interpreter(self._python)), here

    def refuse(self, subject: Subject, test: str) -> None:  # noqa: ARG002  # the same tests
        """Refuse a program that would run with the same packages on both sides."""
        if isinstance(subject, Command) and not subject.runs_this_python:
            raise TfperfError(
                f"{subject.id}: {subject.argv[0]} runs with the same packages on both sides of --tfperf-against",
                next_step='Begin the command with sys.executable, as in [sys.executable, "train.py"]',
            )

    def close(self) -> None:
        """Do nothing."""
