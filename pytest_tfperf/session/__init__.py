"""The side of pytest: hooks and fixtures, and the session that they share.

pytest rewrites the `assert`s of an installed plugin, and compiles all of its files anew in each run that may not write
their bytecode: in an environment that is shared, or with PYTHONDONTWRITEBYTECODE=1. Ours need no rewriting.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class _AsInstalled:
    """Finds our modules before pytest's import hook does."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith("pytest_tfperf.") else None


sys.meta_path.insert(0, _AsInstalled)
