"""The features of this installation, and which of them take part in a session."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_tfperf.core.setting import Setting, variable
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features import Feature, modules

if TYPE_CHECKING:
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.session_verdicts import SessionResult
    from pytest_tfperf.lines import Line

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Features:
    """The features of this installation, by name, in the order in which they are asked."""

    by_name: Mapping[str, Feature]

    @property
    def settings(self) -> tuple[Setting[Any], ...]:
        """All settings of all features."""
        return tuple(setting for feature in self.by_name.values() for setting in feature.settings)

    def active(self, settings: Settings) -> dict[str, Feature]:
        """The features that take part in a session with these settings."""
        return {name: feature for name, feature in self.by_name.items() if _is_active(feature, settings)}

    def hooks(self, settings: Settings, hook: Callable[[Feature], T | None]) -> list[T]:
        """The active features' functions for a hook, as in `hooks(settings, lambda feature: feature.prepare)`."""
        having = ((feature, hook(feature)) for feature in self.by_name.values())
        return [function for feature, function in having if function is not None and _is_active(feature, settings)]

    def session_ended(self, context: Session, record: SessionResult) -> Iterator[Line | str]:
        """Let each active feature write its files; an error of one becomes a line, and stops no other."""
        for name, feature in self.active(context.settings).items():
            try:
                if feature.session_ended is not None:
                    yield from feature.session_ended(context, record)
            except (OSError, TfperfError) as error:
                yield str(error)
            except Exception as error:
                yield f"{name}: a fault of pytest-tfperf itself, please report it: {error!r}"

    def usage_status(self, arguments: tuple[str, ...]) -> int | None:
        """The exit status that a feature wants in place of 4 for a usage error; there are no settings yet."""
        hooks = [feature.usage_status for feature in self.by_name.values() if feature.usage_status is not None]
        return first(hook(arguments) for hook in hooks)


def _is_active(feature: Feature, settings: Settings) -> bool:
    return feature.always or any(_is_given(setting, settings) for setting in feature.settings)


def _is_given(setting: Setting[Any], settings: Settings) -> bool:
    # The variable of a secret is empty in jobs that may not have it; its feature says so.
    return settings.of(setting) != setting.default or (setting.is_secret and variable(setting.name) in os.environ)


def first(answers: Iterable[T | None]) -> T | None:
    """The first answer that is not None; hooks after it are not called."""
    return next((answer for answer in answers if answer is not None), None)


@cache
def features() -> Features:
    """The features, read from their folder once for each process."""
    unordered: dict[str, Feature] = {name: module.FEATURE for name, module in modules("plugin").items()}
    return Features(dict(sorted(unordered.items(), key=lambda item: not item[1].comes_first)))


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
