"""The two sides of a session whose checks are comparisons: their code and packages, and how their workers start."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.errors import NotCompared, TfperfError
from pytest_tfperf.judging.pairs import Terms
from pytest_tfperf.revisions.checkout import Checkout
from pytest_tfperf.revisions.checkout_launcher import CheckoutLauncher
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import Launcher


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Code and packages that workers run.

    Args:
        title: its name in messages: "origin/main (1a2b3c4d5e6f)".
        facts: added to the environment of its measurements: "commit" -> "1a2b3c4d5e6f".
        python: the interpreter that runs it, with its packages.
        checkout: its code; None for the current code, of which nothing is proved.
    """

    title: str
    facts: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    checkout: Checkout | None = None

    def launcher(
        self,
        here: Launcher,
        launch: Callable[[Interpreter], Launcher],
        *,
        may_be_same: bool,
        lacking: CheckoutLauncher | None = None,
    ) -> Launcher:
        """Return the launcher of its workers; see `OtherSide.launchers` and `CheckoutLauncher`."""
        is_here = self.python == sys.executable and (self.checkout is None or not self.checkout.moved)
        if self.checkout is None:
            return here if is_here else launch(Interpreter(self.python))
        local = here if is_here else launch(self.checkout.interpreter(self.python))
        return CheckoutLauncher(local, self.checkout, may_be_same=may_be_same, lacking=lacking, keeps_doubts=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSide:
    """The sides that each check of a session compares, in place of a check against a baseline.

    Args:
        a: the other side.
        b: the side that is compared with a: usually the current code under this Python.
        announcement: lines before the first test, which name both sides.
        terms: how comparisons are decided.
        compares_figures: whether the figures of each check are compared, too.
        may_lack_code: whether a test that a's code can't run is measured on b alone; otherwise it is an error.
        lacking: the folder that a lacks, for each test in such a folder.
    """

    a: State
    b: State
    announcement: tuple[str, ...]
    terms: Terms = field(default_factory=Terms)
    compares_figures: bool = True
    may_lack_code: bool = False
    lacking: Mapping[str, str] = field(default_factory=dict)

    def launchers(self, here: Launcher, launch: Callable[[Interpreter], Launcher]) -> tuple[Launcher, Launcher]:
        """Return the launchers of the workers of a and b.

        Args:
            here: starts workers on the current code under this Python.
            launch: makes the launcher of another interpreter.
        """
        has_own_packages = self.a.python != self.b.python
        a = self.a.launcher(here, launch, may_be_same=has_own_packages)
        lacking = a if self.may_lack_code and isinstance(a, CheckoutLauncher) else None
        return a, self.b.launcher(here, launch, may_be_same=has_own_packages, lacking=lacking)

    def refuse(self, subject: Subject, test: str) -> None:
        """Refuse the subject of a test (pytest's node id) that can't be compared.

        Raises:
            NotCompared: the other side has no such test.
            TfperfError: both sides would be the same.
        """
        if test in self.lacking:
            raise NotCompared(f"NEW: {self.a.title} has no folder {self.lacking[test]}/")
        if self.a.checkout == self.b.checkout and isinstance(subject, Command) and not subject.runs_this_python:
            raise TfperfError(
                f"{subject.id}: {subject.words[0]} runs with the same packages on both sides: {self.a.title} (a) and "
                f"{self.b.title} (b)",
                next_step='Begin the command with sys.executable, as in [sys.executable, "train.py"]',
            )
