"""What starts a session's training: under this Python, the other side of a comparison, or a reference environment."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import cached_property

from pytest_tfperf.bench.other_side import OtherSide
from pytest_tfperf.core.selection import Selection
from pytest_tfperf.core.settings import Settings, WorkerStart
from pytest_tfperf.session.features import features
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import Launcher, Nodes, References
from pytest_tfperf.workers.local import LocalLauncher


class Launchers:
    """The launchers of one session; each is made when it is first needed.

    Args:
        settings: what the user asked for.
        selection: the session's tests.
        nodes: what starts tests on several nodes; None: this machine's own processes stand for nodes.
    """

    def __init__(self, settings: Settings, selection: Selection, nodes: Nodes | None) -> None:
        self._settings = settings
        self._selection = selection
        self._nodes = nodes
        self._opened = ExitStack()

    def close(self) -> None:
        """End all workers."""
        self._opened.close()

    @cached_property
    def here(self) -> Launcher:
        """Starts workers under this Python."""
        return self._launcher(Interpreter(sys.executable))

    @cached_property
    def other_side(self) -> OtherSide | None:
        """What each check is compared with; None where baselines judge."""
        other: OtherSide | None = features().ask("other_side", settings=self._settings, selection=self._selection)
        if other is not None:
            self._opened.callback(other.close)
        return other

    @cached_property
    def compared(self) -> tuple[Launcher, Launcher]:
        """What starts the workers of the other side (a) and of this one (b)."""
        assert self.other_side is not None, "asked for only where checks are compared"
        return self.other_side.launchers(self.here, self._launcher)

    @cached_property
    def references(self) -> References | None:
        """The reference environments that suspected slowdowns are confirmed in."""
        found: References | None = features().ask("references", settings=self._settings, launch=self._launcher)
        return found

    def _launcher(self, interpreter: Interpreter) -> Launcher:
        settings = self._settings
        local = LocalLauncher(
            logs=settings.dir / "logs",
            silence_seconds=settings.timeout,
            fresh=settings.worker is WorkerStart.FRESH,
            interpreter=interpreter,
        )
        self._opened.callback(local.close)
        return local if self._nodes is None else self._nodes.launcher(local, interpreter)
