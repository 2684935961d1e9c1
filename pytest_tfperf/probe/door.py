"""Becomes the `sitecustomize` of a program's Pythons: runs the parts that were asked for, then the hidden one.

`HookFolder` writes this file and the parts into a folder that comes first on PYTHONPATH. Any Python from 3.8 runs it,
without this package, so it imports the standard library only, and as little of it as it can: it runs at each start.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` would cost each Python's start more than all of this
    from typing import Any

KEPT_AS = "sitecustomize_of_tfperf"
_HERE = os.path.dirname(os.path.abspath(__file__))


def load(name: str) -> Any:
    """Import a file of this folder, which is on the import path only meanwhile."""
    sys.path.insert(0, _HERE)
    try:
        return __import__(name)
    finally:
        sys.path.remove(_HERE)


def enter(*parts: tuple[str, str, tuple[Any, ...]]) -> None:
    """Call a function of each part, and then run the `sitecustomize` that this one hides.

    Args:
        parts: the file's name without suffix, the function's name, and its arguments.
    """
    sys.path[:] = [path for path in sys.path if not path or os.path.abspath(path) != _HERE]
    ours = sys.modules[KEPT_AS] = sys.modules.pop("sitecustomize")
    for name, function, arguments in parts:
        getattr(load(name), function)(*arguments)
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", ours)
