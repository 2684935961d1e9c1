"""The code of a commit: the files that belong to it, and the paths in a text that lead to it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final

from pytest_tfperf.revisions.git import ignored, is_ignored
from pytest_tfperf.workers.processes import Interpreter

ENDS_PATH: Final = r"""\s:;,'"`=|&<>()\[\]{}"""
"""Characters that end a path inside of other text, as a regular expression has them between its brackets."""

_LIBRARIES = ("site-packages", "dist-packages")
_HERE = os.path.realpath(sys.prefix)
_MARKS_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")
_OF_PYTHON = re.compile(r"/lib/python3|/(site|dist)-packages/")  # its own modules, which a home may hold, and packages
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib64", "opt", "nix", "snap")


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """The code of a side of a comparison: a commit that is checked out somewhere, or the user's own code.

    All links in its paths are followed.
    """

    repository: Path  # root of the user's repository
    folder: Path  # where this side's code is; the repository for the user's own code
    name: str  # for messages: "origin/main (1a2b3c4d5e6f)"
    beside: Path | None = None  # the folder that holds the checkouts of other commits; None where that is not known

    @property
    def moved(self) -> dict[Path, Path]:
        """As in `Interpreter`."""
        return {} if self.folder == self.repository else {self.repository: self.folder}

    def interpreter(self, python: Path | str) -> Interpreter:
        """The Python with this code in the place of the user's own."""
        return Interpreter(str(python), self.moved, self._variable if self.moved else lambda _, value: value)

    @cached_property
    def trees(self) -> tuple[Path, ...]:
        """The folders with code of any commit, the innermost first."""
        every = {self.folder, self.repository, self.beside or self.folder}
        return tuple(sorted(every, key=lambda folder: len(folder.parts), reverse=True))

    def is_own(self, file: Path) -> bool:
        """Whether the file, links followed, is of this checkout."""
        return self._tree(file) == self.folder

    def is_foreign(self, file: Path) -> bool:
        """Whether the file, links followed, is code of another commit: the user's own, or another checkout's."""
        return self._tree(file) not in (None, self.folder)

    def is_current(self, file: Path) -> bool:
        """Whether the file, links followed, is the user's own, and of no checkout."""
        return self._tree(file) == self.repository

    def is_ignored(self, file: Path) -> bool:
        """Whether git ignores the file, so that no commit has it; where there is no git, that holds for all files."""
        return self._tree(file) is not None and is_ignored(file)

    def ignored(self, files: Iterable[Path]) -> frozenset[Path]:
        """Return those of the files that `is_ignored` is true of, with few questions to git."""
        return ignored(file for file in files if self._tree(file) is not None)

    def _variable(self, name: str, value: str) -> str:
        """The value of a variable such as PROJECT, PATH or NODE_PATH, with paths that lead into the checkout.

        Paths that the checkout lacks or git ignores, such as data and environments, stay.
        """
        if name == "HOME" or os.sep not in value:  # a home is no code, even if the repository is in its place
            return value
        return replace_paths(value, self.repository, self._own_path)

    def _own_path(self, path: str) -> str:
        real = Path(path).resolve()
        if not real.is_relative_to(self.repository):
            return path
        there = self.folder / real.relative_to(self.repository)
        has_it = os.path.exists(there) and not is_ignored(there)  # noqa: PTH110  # may be too long
        return str(there) if has_it else path

    def _tree(self, file: Path) -> Path | None:
        """The innermost of `trees` that holds the file; None for any other file, and for git's and libraries' own."""
        return _tree_of(file, self.trees)


@cache
def _tree_of(path: Path, trees: Sequence[Path]) -> Path | None:
    if path in trees:
        return path
    is_none = path == path.parent or path.name in (*_LIBRARIES, ".git") or _is_environment(path)
    return None if is_none else _tree_of(path.parent, trees)


def is_installed(file: Path) -> bool:
    """Whether a file outside of the repository is of the system, of a Python, or of one of its environments."""
    if file.parts[1] in _SYSTEM or _OF_PYTHON.search(str(file)):
        return True
    is_beside_a_python = file.parent.name == "bin" and any((file.parent.parent / "lib").glob("python3.*"))
    return is_beside_a_python or any(map(_is_environment, file.parents))


def _is_environment(path: Path) -> bool:
    """Whether the path is the top of an environment of Python, such as this Python's."""
    # Text, because a path may be too long, and because programs read tens of thousands of files.
    text = str(path)
    return text == _HERE or any(os.path.exists(f"{text}/{mark}") for mark in _MARKS_ENVIRONMENT)  # noqa: PTH110


# Absolute paths inside of other text: of a shell's command, a compiler's option, or a variable such as PATH.


def absolute_paths(text: str, repository: Path) -> list[str]:
    """The absolute paths in a text, also after an option of a compiler: "-I/usr/include".

    >>> absolute_paths("cd /repo/x && ./run -I/usr 'open=/a b' src/train", Path("/repo"))
    ['/repo/x', '/usr', '/a']
    """
    return [match["path"] for match in _pattern(repository).finditer(text)]


def replace_paths(text: str, repository: Path, new: Callable[[str], str]) -> str:
    """The text with each absolute path replaced.

    >>> replace_paths("-I/repo/x:/usr", Path("/repo"), str.upper)
    '-I/REPO/X:/USR'
    """
    return _pattern(repository).sub(lambda match: match["before"] + new(match["path"]), text)


def _pattern(repository: Path) -> re.Pattern[str]:
    before = r"""(?P<before>(?<![^\s'"])-\w+|(?<![\w.~$*/\])}-]))"""
    # The repository's own path may have spaces.
    path = rf"/*{re.escape(str(repository))}(?![^/{ENDS_PATH}])[^{ENDS_PATH}]*|/[^{ENDS_PATH}]*"
    return re.compile(f"{before}(?P<path>{path})")
