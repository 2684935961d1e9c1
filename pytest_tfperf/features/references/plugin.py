"""The reference environments of a session's baselines."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings

if TYPE_CHECKING:
    from pytest_tfperf.workers.launcher import Launcher, ReferenceEnvironments
    from pytest_tfperf.workers.processes import Interpreter


def _reference(text: str) -> tuple[Path, Path | None]:
    from pytest_tfperf.features.references.environment import parse_reference

    return parse_reference(text)


REFERENCE: Final[Setting[tuple[Path, Path | None] | None]] = Setting(
    name="reference",
    default=None,
    parse=_reference,
    help="confirm slowdowns in this environment, not in those of tfperf reference",
    metavar="PYTHON[:SOURCE]",
)


def references(settings: Settings, launch: Callable[[Interpreter], Launcher]) -> ReferenceEnvironments:
    """The environment that was named, or the environments that `tfperf reference` has built."""
    from pytest_tfperf.features.references.environment import ReferenceLaunchers, ReferenceStore, named

    given = settings.of(REFERENCE)
    store = ReferenceStore(settings.dir, baselines=settings.baselines, root=settings.root)
    one = None if given is None else named(*given, settings.root)
    find = store.find if one is None else lambda _: one
    return ReferenceLaunchers(find, launch, settings.root, settings.baselines)


FEATURE: Final = Feature(
    settings=(REFERENCE,),
    files="*.csv",  # rows name environments
    asked=attrgetter("update_baselines"),
    references=references,
)
