"""The reference environments of a session's baselines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.features import hookimpl

if TYPE_CHECKING:
    from pytest_tfperf.features.references.environment import ReferenceEnvironment
    from pytest_tfperf.workers.interpreters import Interpreter
    from pytest_tfperf.workers.launcher import Launcher, References


def _reference(text: str) -> ReferenceEnvironment:
    from pytest_tfperf.features.references.environment import parse_reference

    return parse_reference(text)


REFERENCE: Final[Setting[ReferenceEnvironment | None]] = Setting(
    name="reference",
    default=None,
    parse=_reference,
    help="confirm slowdowns in this environment, not in those of tfperf reference",
    metavar="PYTHON[:SOURCE]",
)
SETTINGS: Final = (REFERENCE,)


@hookimpl
def references(settings: Settings, launch: Callable[[Interpreter], Launcher]) -> References:
    """The one that was named, or those that `tfperf reference` has built."""
    from pytest_tfperf.features.references.environment import ReferenceLaunchers
    from pytest_tfperf.features.references.store import ReferenceStore

    named = settings.of(REFERENCE)
    store = ReferenceStore(settings.dir, baselines=settings.baselines, root=settings.root)
    return ReferenceLaunchers(
        store.find if named is None else lambda _: named,
        lambda found: _launcher(found, settings, launch),
        settings.root,
        settings.baselines,
    )


def _launcher(found: ReferenceEnvironment, settings: Settings, launch: Callable[[Interpreter], Launcher]) -> Launcher:
    """What starts workers in an environment, and proves that they don't run the current code."""
    from pytest_tfperf.revisions.checkout_launcher import CheckoutLauncher

    checkout, local = found.checkout(settings.root), launch(found.interpreter(settings.root))
    return local if checkout is None else CheckoutLauncher(local, checkout, may_be_same=True)
