"""The reference environments of a session's baselines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature, has_baselines
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings

if TYPE_CHECKING:
    from pytest_tfperf.features.references.environment import ReferenceEnvironment
    from pytest_tfperf.workers.interpreters import Interpreter
    from pytest_tfperf.workers.launcher import Launcher, ReferenceEnvironments


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


def references(settings: Settings, launch: Callable[[Interpreter], Launcher]) -> ReferenceEnvironments:
    """The environment that was named, or the environments that `tfperf reference` has built."""
    from pytest_tfperf.features.references.environment import ReferenceLaunchers
    from pytest_tfperf.features.references.store import ReferenceStore

    named = settings.of(REFERENCE)
    store = ReferenceStore(settings.dir, baselines=settings.baselines, root=settings.root)
    return ReferenceLaunchers(
        store.find if named is None else lambda _: named,
        lambda environment: _launcher(environment, settings, launch),
        settings.root,
        settings.baselines,
    )


def _launcher(
    environment: ReferenceEnvironment, settings: Settings, launch: Callable[[Interpreter], Launcher]
) -> Launcher:
    """The launcher of workers in an environment, which proves that they don't run the current code."""
    from pytest_tfperf.revisions.checkout_launcher import CheckoutLauncher

    checkout, local = environment.checkout(settings.root), launch(environment.interpreter(settings.root))
    return local if checkout is None else CheckoutLauncher(local, checkout, may_be_same=True)


FEATURE: Final = Feature(
    settings=(REFERENCE,),
    asked=lambda settings: settings.update_baselines is not None or has_baselines(settings),  # rows name environments
    references=references,
)
