"""What a feature may do in a session: the functions of its `plugin.py` that are marked with `hookimpl`.

They get nouns, stores and what takes runs, and never pytest's own objects. Where only one feature can answer, the first
that does wins.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import pluggy

from pytest_tfperf.core.setting import Setting
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features import modules

if TYPE_CHECKING:
    from contextlib import ExitStack

    from pytest_tfperf.bench.other_side import OtherSide
    from pytest_tfperf.bench.run_engine import RunEngine
    from pytest_tfperf.bench.task import Profiler
    from pytest_tfperf.core.figure import Figure
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.selection import Choice, Selection
    from pytest_tfperf.core.session_verdicts import SessionRecord, SessionVerdict
    from pytest_tfperf.core.settings import Settings
    from pytest_tfperf.stores.baselines import BaselineStore
    from pytest_tfperf.stores.history import History
    from pytest_tfperf.workers.interpreters import Interpreter
    from pytest_tfperf.workers.launcher import Launcher, Nodes, References

hookspec = pluggy.HookspecMarker("tfperf")


@hookspec
def prepare(settings: Settings) -> None:
    """Before tests are collected: refuse what would otherwise fail after hours. Raises TfperfError."""


@hookspec
def check_stores(settings: Settings) -> None:
    """When tests were collected: refuse files that they need and that can't be used. Raises TfperfError."""


@hookspec(firstresult=True)
def select(
    settings: Settings, selection: Selection, seconds: Mapping[str, float], failed: Collection[str], history: History
) -> Choice | None:
    """Choose which of the selected tests run, and in which order; `seconds` is what each will probably take."""


@hookspec(firstresult=True)
def nodes(settings: Settings) -> Nodes | None:
    """What starts tests on several nodes; None: this machine's own processes stand for nodes."""


@hookspec(firstresult=True)
def references(settings: Settings, launch: Callable[[Interpreter], Launcher]) -> References | None:
    """The environments in which baselines were recorded; `launch` gives what starts workers under a Python."""


@hookspec(firstresult=True)
def other_side(
    settings: Settings, selection: Selection, say: Callable[[str], None], opened: ExitStack
) -> OtherSide | None:
    """What each check is compared with, instead of with a baseline. Raises TfperfError where it can't be had.

    `say` shows a line at once, for what takes long. `opened` is closed when the session ends.
    """


@hookspec(firstresult=True)
def figures(settings: Settings) -> Sequence[Figure] | None:
    """The figures that each check is judged by beside its throughput, where its test does not say it."""


@hookspec(firstresult=True)
def profiler(settings: Settings, engine: RunEngine, history: History) -> Profiler | None:
    """What profiles confirmed regressions and new baselines; `engine` takes its runs."""


@hookspec
def session_verdicts(  # type: ignore[empty-body]
    settings: Settings, session: str, machines: Sequence[str], history: History
) -> Iterable[SessionVerdict]:
    """Further verdicts on the session as a whole, when all tests have run. Raises TfperfError."""


@hookspec
def remarks(settings: Settings, left_out: Mapping[str, float], in_brief: bool) -> Sequence[str]:  # type: ignore[empty-body]
    """Lines about the session, for its header (in brief) and its summary; `left_out` has tests and their seconds."""


@hookspec
def properties(results: Sequence[Measurement]) -> Sequence[tuple[str, object]]:  # type: ignore[empty-body]
    """What JUnit XML says of a test's decided results."""


@hookspec(firstresult=True)
def exit_status(settings: Settings, record: Callable[[], SessionRecord], status: int) -> int | None:
    """The status that pytest ends with, in place of `status`."""


@hookspec(firstresult=True)
def usage_status(arguments: Sequence[str]) -> int | None:
    """The status, in place of 4, where pytest ends before it has settings; `arguments` are its command line."""


@hookspec
def session_ended(  # type: ignore[empty-body]
    settings: Settings, record: SessionRecord, history: History, baselines: BaselineStore
) -> Sequence[str]:
    """Write what was asked for; returns lines for the user. An error becomes a line, and stops no other feature."""


class Features:
    """What features bring to a session.

    Attributes:
        settings: all that they can be told.
    """

    def __init__(self) -> None:
        plugins = modules("plugin")
        self._hooks = pluggy.PluginManager("tfperf")
        self._hooks.add_hookspecs(sys.modules[__name__])
        for name in reversed(plugins):  # what is registered last is called first
            self._hooks.register(plugins[name], name)
        self._hooks.check_pending()
        self._names = list(plugins)
        self.settings: tuple[Setting[Any], ...] = tuple(
            one for plugin in plugins.values() for one in getattr(plugin, "SETTINGS", ())
        )

    def ask(self, hook: str, **arguments: object) -> Any:
        """What the features answer: a list, or the one answer of a hook that wants only one."""
        return getattr(self._hooks.hook, hook)(**arguments)

    def tell(self, hook: str, **arguments: object) -> Iterator[str]:
        """The lines of each feature, one feature at a time; an error of one becomes a line, and stops no other."""
        for name in self._names:
            others = [self._hooks.get_plugin(other) for other in self._names if other != name]
            try:
                for lines in self._hooks.subset_hook_caller(hook, others)(**arguments):
                    yield from lines
            except (OSError, TfperfError) as error:
                yield str(error)
            except Exception as error:
                yield f"{name}: a fault of pytest-tfperf itself, please report it: {error!r}"


@cache
def features() -> Features:
    """The features, found once for each process."""
    return Features()


def module_of(feature: str, name: str, wanted_by: str) -> Any:
    """A module of a feature, for a method of a fixture.

    Raises:
        TfperfError: this installation lacks the feature.
    """
    if (module := modules(name).get(feature)) is None:
        raise TfperfError(
            f"{wanted_by}: this installation of pytest-tfperf lacks its part features/{feature}",
            next_step="Install it again",
        )
    return module
