"""What hangs on the spine: each folder or file here is a feature, and nothing lists them.

Of a folder, `session/feature_hooks.py` reads the hooks and the `SETTINGS` of its `plugin.py`, and `cli/` its
`command.py`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

import pluggy

hookimpl: Final = pluggy.HookimplMarker("tfperf")
"""Marks what a feature's `plugin.py` does in a session; `session/feature_hooks.py` has what it may do."""

_FOLDER: Final = Path(__file__).parent


def modules(name: str) -> dict[str, ModuleType]:
    """The module `name` of each feature that is a folder and has one, by the feature's name, sorted."""
    return _imported({path.parent.name: f"{path.parent.name}.{name}" for path in _FOLDER.glob(f"*/{name}.py")})


def commands() -> list[ModuleType]:
    """What brings commands of `tfperf`: a feature's `command.py`, or a feature that is a single file."""
    of_files = {path.stem: path.stem for path in _FOLDER.glob("[!_]*.py")}
    of_folders = {path.parent.name: f"{path.parent.name}.command" for path in _FOLDER.glob("*/command.py")}
    return list(_imported(of_files | of_folders).values())


def _imported(found: dict[str, str]) -> dict[str, ModuleType]:
    return {feature: import_module(f"pytest_tfperf.features.{found[feature]}") for feature in sorted(found)}
