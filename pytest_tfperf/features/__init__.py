"""The features of pytest-tfperf: each folder or file here is a feature, and nothing lists them.

A folder's `plugin.py` says with `FEATURE` how it takes part in a session, and its `command.py` adds commands to
`tfperf`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core.setting import Setting

_FOLDER: Final = Path(__file__).parent


@cache
def features() -> Mapping[str, Feature]:
    """The features that take part in sessions, by name, in the order in which they are asked; read once."""
    found: dict[str, Feature] = {name: module.FEATURE for name, module in modules("plugin").items()}
    return dict(sorted(found.items(), key=lambda item: not item[1].comes_first))


@cache
def settings_of_features() -> tuple[Setting[Any], ...]:
    """All settings of all features."""
    return tuple(setting for feature in features().values() for setting in feature.settings)


def modules(name: str) -> dict[str, ModuleType]:
    """The module `name` of each feature that is a folder and has one, by the feature's name, sorted."""
    return _imported({path.parent.name: f"{path.parent.name}.{name}" for path in _FOLDER.glob(f"*/{name}.py")})


def outputs() -> list[Setting[Any]]:
    """The settings that name where a session's results go."""
    return [setting for setting in settings_of_features() if setting.is_output]


def commands() -> list[ModuleType]:
    """The modules with commands of `tfperf`: a feature's `command.py`, or a feature that is a single file."""
    of_files = {path.stem: path.stem for path in _FOLDER.glob("[!_]*.py")}
    of_folders = {path.parent.name: f"{path.parent.name}.command" for path in _FOLDER.glob("*/command.py")}
    return list(_imported(of_files | of_folders).values())


def _imported(found: dict[str, str]) -> dict[str, ModuleType]:
    return {feature: import_module(f"pytest_tfperf.features.{found[feature]}") for feature in sorted(found)}
