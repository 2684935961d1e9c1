"""Absolute paths inside of other text: of a shell's command, a compiler's option, or a variable such as PATH."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

ENDS_PATH: Final = r"""\s:;,'"`=|&<>()\[\]{}"""
"""Characters that end a path inside of other text, as a regular expression has them between its brackets."""


def absolute_paths(text: str, repository: Path) -> list[str]:
    """The absolute paths in a text, also after an option of a compiler: "-I/usr/include".

    >>> absolute_paths("cd /repo/x && ./run -I/usr 'open=/a b' src/train", Path("/repo"))
    ['/repo/x', '/usr', '/a']
    """
    return [found["path"] for found in _pattern(repository).finditer(text)]


def replace_paths(text: str, repository: Path, new: Callable[[str], str]) -> str:
    """The text with another path for each absolute one.

    >>> replace_paths("-I/repo/x:/usr", Path("/repo"), str.upper)
    '-I/REPO/X:/USR'
    """
    return _pattern(repository).sub(lambda found: found["before"] + new(found["path"]), text)


def _pattern(repository: Path) -> re.Pattern[str]:
    before = r"""(?P<before>(?<![^\s'"])-\w+|(?<![\w.~$*/\])}-]))"""
    # The repository's own path may have spaces.
    path = rf"/*{re.escape(str(repository))}(?![^/{ENDS_PATH}])[^{ENDS_PATH}]*|/[^{ENDS_PATH}]*"
    return re.compile(f"{before}(?P<path>{path})")
