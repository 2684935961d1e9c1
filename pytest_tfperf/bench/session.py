"""The settings, tests and stores of a session, as one value that its parts and the features share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_tfperf.core.selection import Selection
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    from pytest_tfperf.core.acknowledgement import Acknowledgement
    from pytest_tfperf.reports.progress_line import ProgressLine
    from pytest_tfperf.stores.baselines import BaselineStore
    from pytest_tfperf.stores.history import History


def _new_id() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


@dataclass(frozen=True, kw_only=True)
class Session:
    """The settings, tests and stores of a session. Stores are opened when they are first used.

    Args:
        settings: the values of all settings.
        id: marks the measurements of this session.
        selection: the throughput tests that pytest selected.
        say: shows a line at once, for work that takes long.
        opened: closed when the session ends.
        history_faults: reasons why the history could not be read or written.
    """

    settings: Settings
    id: str = field(default_factory=_new_id)
    selection: Selection = field(default_factory=Selection)
    say: Callable[[str], None] = lambda _: None
    opened: ExitStack = field(default_factory=ExitStack)
    history_faults: list[str] = field(default_factory=list)

    # Importing SQLAlchemy takes 0.2 s, and a session that only collects needs none of these.

    @cached_property
    def baselines(self) -> BaselineStore:
        """The committed baselines."""
        from pytest_tfperf.stores.baselines import BaselineStore

        return BaselineStore(self.settings.baselines)

    @cached_property
    def acknowledgements(self) -> tuple[Acknowledgement, ...]:
        """The losses that the team knows of, of all machines.

        Raises:
            TfperfError: their file can't be read whole.
        """
        from pytest_tfperf.stores import acknowledgements

        return acknowledgements.read(self.settings.baselines)

    @cached_property
    def history(self) -> History:
        """The measurements of this session and of earlier ones."""
        from pytest_tfperf.stores.history import History

        return History(self.settings.dir / "history.sqlite")

    @cached_property
    def progress(self) -> ProgressLine:
        """The line that shows how a measurement progresses."""
        from pytest_tfperf.reports.progress_line import ProgressLine

        return ProgressLine()

    def is_gone(self, test: str) -> bool:
        """Whether a test's file is gone, or was collected whole and has no such test."""
        file, collected = test.partition("::")[0], self.selection.collected
        if not (self.settings.root / file).exists():
            return True
        return test not in collected and any(other.partition("::")[0] == file for other in collected)

    @contextmanager
    def noting_history_faults(self) -> Iterator[None]:
        """Go on without a history that can't be read or written; the summary says why."""
        try:
            yield
        except TfperfError as error:
            self.history_faults.append(str(error))
