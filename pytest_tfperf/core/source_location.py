"""The line of a user's that an error comes from: what to mend is there, not where we found it out."""

from __future__ import annotations

import os
import sysconfig
import traceback
from pathlib import Path

_OURS = Path(__file__).parents[1]
_RUNNERS = ("_pytest", "pluggy")


def line_of(error: BaseException, seen_from: Path) -> str:
    """The innermost line that is not ours, pytest's or Python's own, as "test_a.py:7"; "" where there is none.

    Args:
        error: as it was caught.
        seen_from: the folder that the file's name starts from.
    """
    lines = [(Path(frame.f_code.co_filename), number) for frame, number in traceback.walk_tb(error.__traceback__)]
    users = [(path, number) for path, number in lines if _is_users(path)]
    return shown(*users[-1], seen_from) if users else ""


def shown(path: Path, line: int, seen_from: Path) -> str:
    """File and line, as short as a terminal can follow it."""
    return f"{os.path.relpath(path, seen_from)}:{line}"


def _is_users(path: Path) -> bool:
    """Whether a frame's file is a user's: dataclasses and eval run theirs between a call and what it raises."""
    if path.is_relative_to(_OURS) or not path.is_file():
        return False
    installed = "site-packages" in path.parts or "dist-packages" in path.parts
    if not installed and any(path.is_relative_to(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")):
        return False
    return not any(name in path.parts for name in _RUNNERS)
