"""The line of the user's code that an error comes from, which is the line to correct."""

from __future__ import annotations

import os
import sysconfig
import traceback
from pathlib import Path

_NOT_THE_USERS = (
    Path(__file__).parents[1],
    *(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)


def line_of(error: BaseException, seen_from: Path) -> str:
    """The innermost line that is not ours, Python's own or installed, as "test_a.py:7"; "" where there is none.

    Args:
        error: as it was caught.
        seen_from: the folder that the file's name starts from.
    """
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        path = Path(frame.f_code.co_filename)
        # Dataclasses run code that is in no file.
        if path.is_file() and not any(path.is_relative_to(folder) for folder in _NOT_THE_USERS):
            return shown(path, line, seen_from)
    return ""


def shown(path: Path, line: int, seen_from: Path) -> str:
    """File and line, as short as a terminal can follow it."""
    return f"{os.path.relpath(path, seen_from)}:{line}"
