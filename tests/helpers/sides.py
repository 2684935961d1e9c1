"""Two sides of a comparison: a user's repository, and its first commit checked out beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.revisions.checkout import Checkout
from pytest_tfperf.revisions.checkout_launcher import CheckoutLauncher
from pytest_tfperf.revisions.worktrees import Worktrees
from pytest_tfperf.workers.launcher import PreparedCommand
from pytest_tfperf.workers.local import LocalLauncher
from pytest_tfperf.workers.processes import Interpreter
from tests.helpers.inner import Project
from tests.helpers.repositories import Repository

CPU = Devices(kind=DeviceKind.CPU, count=1)
USES_COST = "import cost; print(cost.__file__, cost.COST)"
SLOW = "import time; time.sleep(0.5)"


class Sides:
    """The launchers of the first commit, which is the base, and of the current code.

    Attributes:
        here, there: the folders of the current code and of the base.
    """

    def __init__(self, project: Project) -> None:
        self.here = project.folder.resolve()
        self.repository = Repository(project)
        self.ignore("data/", "build/")
        base = self.repository.git("rev-parse", "HEAD")
        self.there = Worktrees(self.here, self.here / ".tfperf" / "checkouts").get(base).resolve()
        self.checkout = Checkout(repository=self.here, folder=self.there, name="main (1a2b)", beside=self.there.parent)
        self._opened: list[LocalLauncher] = []
        self.use(sys.executable)

    def ignore(self, *patterns: str) -> None:
        """Let git ignore these, too; the base's commit has them."""
        file = self.here / ".gitignore"
        file.write_text("\n".join([file.read_text(), "__pycache__/", *patterns, ""]))
        self.repository.git("commit", "--quiet", "--amend", "--no-edit", "--all")

    def use(self, python: str) -> None:
        """Let this Python run the base."""
        self.base = CheckoutLauncher(
            self._local(self.checkout.interpreter(python)),
            self.checkout,
            may_be_same=python != sys.executable,
            keeps_doubts=True,
        )
        current = replace(self.checkout, folder=self.here, name="this checkout")
        local = self._local(current.interpreter(sys.executable))
        self.current = CheckoutLauncher(local, current, lacking=self.base, keeps_doubts=True)

    def _local(self, interpreter: Interpreter) -> LocalLauncher:
        logs = self.here / ".tfperf" / "logs"
        self._opened.append(LocalLauncher(logs=logs, silence_seconds=1, interpreter=interpreter))
        return self._opened[-1]

    def prepared(
        self,
        *argv: str,
        program: str = sys.executable,
        folder: Path | None = None,
        of: CheckoutLauncher | None = None,
        **environment: str,
    ) -> PreparedCommand:
        """What starts a program on the base, or on the side of another launcher."""
        self._command = Command(
            [program, *argv], name="it", cwd=str(self.here if folder is None else folder), env=environment
        )
        return (of or self.base).prepare_command(self._command, CPU, 1)

    def run(self, *argv: str, **how: Any) -> str:
        """Run a program to its end and require that it ran its side's own code; returns what it printed."""
        prepared = self.prepared(*argv, **how)
        with prepared.proof(os.getpid()):
            done = subprocess.run(
                prepared.command.words,
                cwd=prepared.command.cwd,
                env=dict(prepared.command.env),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=60,
                check=False,
            )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def doubt(self, *argv: str, of: CheckoutLauncher | None = None, **how: Any) -> str:
        """Run a program as `run` does; returns why it is not proved that it ran its side's own code, "" if it is."""
        self.run(*argv, of=of, **how)
        doubt = (of or self.base).doubt(self._command)
        return "" if doubt is None else doubt.text

    def close(self) -> None:
        for launcher in self._opened:
            launcher.close()


def script(folder: Path, text: str, name: str = "script.sh") -> str:
    path = folder / name
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
    return str(path)
