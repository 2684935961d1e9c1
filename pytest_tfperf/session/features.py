"""The features of this installation, as a session calls them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pluggy

from pytest_tfperf.core.features import modules
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.session import feature_hooks


class Features:
    """What features bring to a session.

    Attributes:
        settings: all that they can be told.
    """

    def __init__(self) -> None:
        plugins = modules("plugin")
        self._hooks = pluggy.PluginManager("tfperf")
        self._hooks.add_hookspecs(feature_hooks)
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
            f"{wanted_by}: this installation of pytest-tfperf lacks its part features/{feature}. Install it again"
        )
    return module
