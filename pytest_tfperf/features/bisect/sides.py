"""The two states of a step as the sides of a session's checks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, final

from pytest_tfperf.bench.comparing import Effort, Terms
from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.bisect.step import State, Step
from pytest_tfperf.judging.pairs import ErrorRates
from pytest_tfperf.workers.git_history import require_repository
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import Launcher
from pytest_tfperf.workers.own_code import Checkout, CheckoutLauncher

_SECONDS: Final = 3600.0
"""The longest that a comparison may take; a search takes what it needs."""


@final
class TwoStates:
    """See `OtherSide`.

    Args:
        step: what is compared.
        root: pytest's rootdir.
    """

    may_lack_code: Final = False

    def __init__(self, step: Step, root: Path) -> None:
        self._step = step
        self._root = root
        self.announcement = (f"each check compares {step.b.name} (b) with {step.a.name} (a)",)
        self.facts: tuple[Mapping[str, str], Mapping[str, str]] = (
            {step.a.kind: step.a.name},
            {step.b.kind: step.b.name},
        )
        self.terms = Terms(
            tolerance=step.tolerance,
            effort=Effort(max_pairs=step.most_pairs, max_seconds=_SECONDS),
            error_rates=ErrorRates(false_alarms=step.error, false_passes=step.error),
            compares_figures=False,
        )

    def launchers(self, here: Launcher, launch: Callable[[Interpreter], Launcher]) -> tuple[Launcher, Launcher]:
        """See `OtherSide.launchers`."""
        del here  # neither state is the current one
        return self._launcher(self._step.a, launch), self._launcher(self._step.b, launch)

    def _launcher(self, state: State, launch: Callable[[Interpreter], Launcher]) -> Launcher:
        if not state.folder:
            return launch(Interpreter(state.python))
        repository = require_repository(self._root, "tfperf bisect").resolve()
        checkout = Checkout(repository=repository, folder=Path(state.folder).resolve(), name=state.name)
        interpreter = Interpreter(state.python, checkout.moved)
        return CheckoutLauncher(launch(interpreter), interpreter, checkout)

    def refuse(self, subject: Subject, test: str) -> None:  # noqa: ARG002  # the same tests
        """Refuse a program that packages can't change."""
        is_other_python = not self._step.b.folder and self._step.b.python != sys.executable
        if is_other_python and isinstance(subject, Command) and not subject.runs_this_python:
            raise TfperfError(
                f"{subject.id}: {subject.argv[0]} runs with the same packages in each environment",
                next_step='Begin the command with sys.executable, as in [sys.executable, "train.py"]',
            )

    def close(self) -> None:
        """Do nothing: `tfperf bisect` holds the checkouts."""
