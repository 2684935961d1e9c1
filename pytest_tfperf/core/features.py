"""Finds the features: each folder of `pytest_tfperf/features` is one, and nothing else lists them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

import pluggy

hookimpl: Final = pluggy.HookimplMarker("tfperf")
"""Marks what a feature's `plugin.py` does in a session; `session/feature_hooks.py` has what it may do."""

_FOLDER: Final = Path(__file__).parents[1] / "features"


def modules(name: str) -> dict[str, ModuleType]:
    """The module `name`, "plugin" or "command", of each feature that has one, by the feature's name in its order."""
    found = sorted(path.parent.name for path in _FOLDER.glob(f"*/{name}.py"))
    return {feature: import_module(f"pytest_tfperf.features.{feature}.{name}") for feature in found}
