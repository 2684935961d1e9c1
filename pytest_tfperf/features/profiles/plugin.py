"""`--tfperf-profile-on-regression`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.features import hookimpl
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings

if TYPE_CHECKING:
    from pytest_tfperf.bench.one_run import RunEngine
    from pytest_tfperf.bench.task import Profiler
    from pytest_tfperf.stores.history import History

FOLDER: Final[Setting[Path | None]] = Setting(
    name="profile_on_regression",
    default=None,
    parse=parse.folder,
    help="folder for traces of TensorFlow's profiler, taken of each regressed test and each new baseline",
    metavar="DIR",
)
SETTINGS: Final = (FOLDER,)


@hookimpl
def check_stores(settings: Settings) -> None:
    """Refuse a folder that can't be written."""
    folder = settings.of(FOLDER)
    if folder is not None and not settings.smoke:
        from pytest_tfperf.features.profiles.profiler import TraceStore

        TraceStore(folder).prepare()


@hookimpl
def profiler(settings: Settings, engine: RunEngine, history: History) -> Profiler | None:
    """What profiles where a folder for traces was given."""
    folder = settings.of(FOLDER)
    if folder is None:
        return None
    from pytest_tfperf.features.profiles.profiler import TaskProfiler, TraceStore

    return TaskProfiler(engine, TraceStore(folder), settings.root, history.profile_of).profile
