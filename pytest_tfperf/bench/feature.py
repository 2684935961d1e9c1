"""A feature's part in a session: its settings, and a function for each hook that it has."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_tfperf.core.setting import Setting, variable
from pytest_tfperf.core.settings import Settings

if TYPE_CHECKING:
    from pytest_tfperf.bench.comparing import OtherSide
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.bench.task import Profiler
    from pytest_tfperf.core.figure import Figure
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.session_verdicts import SessionResult, SessionVerdict
    from pytest_tfperf.lines import Line
    from pytest_tfperf.workers.launcher import Launcher, Nodes, ReferenceEnvironments
    from pytest_tfperf.workers.processes import Interpreter

T = TypeVar("T")


def _none(*_: object) -> None:
    """The hook of a feature that has none: no value."""


def nothing(*_: object) -> tuple[()]:
    """The hook of a feature that has none: no values."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """How a feature takes part in a session.

    Hooks receive our own objects, never pytest's. They are called in sessions where one of the feature's settings was
    given, or where `files`, `variables` or `asked` say so. Of hooks that give a value or None, the first value counts.

    Args:
        files: files of the baselines folder that the feature is for, as a pattern; "" for none.
        variables: environment variables of others that ask for it where they are not empty.
        asked: whether something else asks for it.
        comes_first: ask this feature before the others.
        prepare: before collection, refuse what would otherwise fail after hours. Raises TfperfError.
        check_stores: after collection, before anything is judged: fetch what the session needs, and refuse files that
            can't be used; gives remarks. Raises TfperfError.
        nodes: the launcher of tests on several nodes; None: processes of this machine stand for nodes.
        references: the reference environments of baselines, from a function that makes a Python's launcher.
        other_side: the other side of each check, in place of baselines. Raises TfperfError where it can't be had.
        figures: the figures that each check is judged by beside its throughput, where its test names none.
        profiler: the profiler of confirmed regressions and new baselines; the session's engine takes its runs.
        lacking_runs: how many further runs to take of a test that is decided, which change no verdict on it.
        session_verdicts: further verdicts on these machines, when all tests have run. Raises TfperfError.
        properties: the properties of a test's decided results, in JUnit XML and elsewhere; asked in every session.
        session_ended: write the files that were asked for; gives lines for the user.
        exited: correct what they say of the exit status, which other plugins may change after `session_ended`.
    """

    settings: tuple[Setting[Any], ...] = ()
    files: str = ""
    variables: tuple[str, ...] = ()
    asked: Callable[[Settings], object] = _none
    comes_first: bool = False
    prepare: Callable[[Settings], None] = _none
    check_stores: Callable[[Session], Iterable[str]] = nothing
    nodes: Callable[[Settings], Nodes | None] = _none
    references: Callable[[Settings, Callable[[Interpreter], Launcher]], ReferenceEnvironments | None] = _none
    other_side: Callable[[Session], OtherSide | None] = _none
    figures: Callable[[Settings], Sequence[Figure]] = nothing
    profiler: Callable[[Session], Profiler | None] = _none
    lacking_runs: Callable[[Session, Measurement], int] = lambda *_: 0
    session_verdicts: Callable[[Session, Sequence[str]], Iterable[SessionVerdict]] = nothing
    properties: Callable[[Sequence[Measurement]], Sequence[tuple[str, object]]] = nothing
    session_ended: Callable[[Session, SessionResult], Iterable[Line | str]] = nothing
    exited: Callable[[Settings, int], None] = _none

    def takes_part(self, settings: Settings) -> bool:
        """Whether the feature takes part in a session with these settings."""
        if (self.files and any(settings.baselines.glob(self.files))) or self.asked(settings):
            return True
        for setting in self.settings:
            # The variable of a secret is empty in jobs that may not have it; its feature says so.
            if settings.of(setting) != setting.default or (setting.is_secret and variable(setting.name) in os.environ):
                return True
        return any(map(os.environ.get, self.variables))


def first(answers: Iterable[T | None]) -> T | None:
    """The first answer that is not None; hooks after it are not called."""
    return next((answer for answer in answers if answer is not None), None)
