"""The features of pytest-tfperf: each folder or file here is a feature, and nothing lists them.

A folder's `plugin.py` says with `FEATURE` how it takes part in a session, and its `command.py` adds commands to
`tfperf`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pytest_tfperf.bench.other_side import OtherSide
    from pytest_tfperf.bench.run_engine import RunEngine
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.bench.task import Profiler
    from pytest_tfperf.core.figure import Figure
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.session_verdicts import SessionResult, SessionVerdict
    from pytest_tfperf.core.setting import Setting
    from pytest_tfperf.core.settings import Settings
    from pytest_tfperf.lines import Line
    from pytest_tfperf.workers.interpreters import Interpreter
    from pytest_tfperf.workers.launcher import Launcher, Nodes, ReferenceEnvironments


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """How a feature takes part in a session: its settings, and a function for each hook that it has.

    Hooks receive our own objects, never pytest's. They are called in sessions where one of the feature's settings was
    given. Of hooks that give a value or None, the first value counts.

    Args:
        settings: registered in every session.
        always: call the hooks in every session.
        comes_first: ask this feature before the others.
        prepare: before collection, refuse what would otherwise fail after hours. Raises TfperfError.
        check_stores: after collection, refuse files that can't be used. Raises TfperfError.
        nodes: the launcher of tests on several nodes; None: processes of this machine stand for nodes.
        references: the reference environments of baselines, from a function that makes a Python's launcher.
        other_side: the other side of each check, in place of baselines. Raises TfperfError where it can't be had.
        figures: the figures that each check is judged by beside its throughput, where its test names none.
        profiler: the profiler of confirmed regressions and new baselines; the engine takes its runs.
        session_verdicts: further verdicts on these machines, when all tests have run. Raises TfperfError.
        properties: the JUnit properties of a test's decided results.
        exit_status: the status that pytest ends with in place of the given one.
        usage_status: the status in place of 4 where pytest ends before it has settings, from its command line; always
            called.
        session_ended: write the files that were asked for; gives lines for the user.
        exited: correct what they say of the exit status, which other plugins may change after `session_ended`.
    """

    settings: tuple[Setting[Any], ...] = ()
    always: bool = False
    comes_first: bool = False
    prepare: Callable[[Settings], None] | None = None
    check_stores: Callable[[Settings], None] | None = None
    nodes: Callable[[Settings], Nodes | None] | None = None
    references: Callable[[Settings, Callable[[Interpreter], Launcher]], ReferenceEnvironments] | None = None
    other_side: Callable[[Session], OtherSide | None] | None = None
    figures: Callable[[Settings], Sequence[Figure]] | None = None
    profiler: Callable[[Session, RunEngine], Profiler | None] | None = None
    session_verdicts: Callable[[Session, Sequence[str]], Iterable[SessionVerdict]] | None = None
    properties: Callable[[Sequence[Measurement]], Sequence[tuple[str, object]]] | None = None
    exit_status: Callable[[Settings, Callable[[], SessionResult], int], int | None] | None = None
    usage_status: Callable[[Sequence[str]], int | None] | None = None
    session_ended: Callable[[Session, SessionResult], Iterable[Line | str]] | None = None
    exited: Callable[[Settings, int], None] | None = None


_FOLDER: Final = Path(__file__).parent


def modules(name: str) -> dict[str, ModuleType]:
    """The module `name` of each feature that is a folder and has one, by the feature's name, sorted."""
    return _imported({path.parent.name: f"{path.parent.name}.{name}" for path in _FOLDER.glob(f"*/{name}.py")})


def outputs() -> list[Setting[Any]]:
    """The settings that name where a session's results go."""
    features: list[Feature] = [module.FEATURE for module in modules("plugin").values()]
    return [setting for feature in features for setting in feature.settings if setting.is_output]


def commands() -> list[ModuleType]:
    """The modules with commands of `tfperf`: a feature's `command.py`, or a feature that is a single file."""
    of_files = {path.stem: path.stem for path in _FOLDER.glob("[!_]*.py")}
    of_folders = {path.parent.name: f"{path.parent.name}.command" for path in _FOLDER.glob("*/command.py")}
    return list(_imported(of_files | of_folders).values())


def _imported(found: dict[str, str]) -> dict[str, ModuleType]:
    return {feature: import_module(f"pytest_tfperf.features.{found[feature]}") for feature in sorted(found)}
