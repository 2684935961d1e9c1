"""Whom a test belongs to: by its mark, else by ini `tfperf_owners`, else by the repository's CODEOWNERS."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Final, Self

import pytest

from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError, known_names


class Owners:
    """The owners of tests, in a session with these settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def of(self, item: pytest.Item) -> str:
        """The owner of a test; "" for none.

        Raises:
            TfperfError: its mark names none.
        """
        if (mark := item.get_closest_marker("owner")) is not None:
            return _named_by(mark, item)
        for pattern, owner in reversed(self._settings.owners):
            if fnmatchcase(item.nodeid, pattern):
                return owner
        path = item.path.resolve()
        return self._files.of(path.relative_to(self._root).as_posix()) if path.is_relative_to(self._root) else ""

    @cached_property
    def _root(self) -> Path:
        """The repository's root, or pytest's where there is no repository."""
        root = self._settings.root.resolve()
        return next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)

    @cached_property
    def _files(self) -> CodeOwners:

        return CodeOwners.of_repository(self._root)


def keep_owned(config: pytest.Config, items: list[pytest.Item], owners: Owners, name: str) -> None:
    """Deselect tests of other owners than the named one.

    Raises:
        TfperfError: no collected test belongs to it; names the nearest.
    """
    of_items = {item: owners.of(item) for item in items}
    names = {item: {owner, *owner.split()} - {""} for item, owner in of_items.items()}
    kept = [item for item in items if name in names[item]]
    if items and not kept:
        known = set().union(*names.values())
        raise TfperfError(f"--tfperf-owner: no collected test belongs to {name!r}", next_step=known_names(name, known))
    config.hook.pytest_deselected(items=[item for item in items if name not in names[item]])
    items[:] = kept


def _named_by(mark: pytest.Mark, item: pytest.Item) -> str:
    name = next(iter([*mark.args, *mark.kwargs.values()]), None)
    if not (isinstance(name, str) and name.strip() and name.isprintable()):
        raise TfperfError(
            f"{item.nodeid}: its mark `owner` names no owner", next_step='Write @pytest.mark.owner("NAME")'
        )
    return name.strip()


_PLACES: Final = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
_SECTION = re.compile(r"\^?\[[^\]]+\](?:\[\d+\])?(.*)")
_WILDCARD = re.compile(r"(/\*\*/|^\*\*/|/\*\*$|\*+|\?)")
_AS_REGEX: Final = {"/**/": "/(?:.*/)?", "**/": "(?:.*/)?", "/**": "/.*", "?": "[^/]"}


@dataclass(frozen=True, slots=True)
class CodeOwners:
    """The rules of a CODEOWNERS file: patterns of paths, and the owners of each in one text, as in "@ada @org/team"."""

    rules: tuple[tuple[re.Pattern[str], str], ...] = ()

    @classmethod
    def of_repository(cls, root: Path) -> Self:
        """Read the first of the files where GitHub and GitLab look; no rules where none can be read."""
        for place in _PLACES:
            try:
                return cls.parse((root / place).read_text(encoding="utf-8", errors="replace"))
            except OSError:
                continue
        return cls()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a file's text. The heading of a section of GitLab's may give owners to lines that name none."""
        rules, default = [], ""
        for line in filter(None, map(str.strip, text.splitlines())):
            if section := _SECTION.fullmatch(line):
                default = section[1].strip()
            elif not line.startswith("#"):
                pattern, *owners = re.split(r"(?<!\\)\s+", line.partition(" #")[0].strip())
                rules.append((_regex(pattern.replace("\\ ", " ")), " ".join(owners) or default))
        return cls(tuple(rules))

    def of(self, path: str) -> str:
        """Return the owners of a path from the repository's root, by the last rule that matches; "" for none."""
        return next((owners for pattern, owners in reversed(self.rules) if pattern.fullmatch(path)), "")


def _regex(pattern: str) -> re.Pattern[str]:
    """Make a regular expression of a pattern, which is one of .gitignore's."""
    inner = pattern.strip("/")
    # A slash at the begin or in the middle ties a pattern to the root.
    anywhere = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    parts = (_AS_REGEX.get(part, "[^/]*" if part[:1] == "*" else re.escape(part)) for part in _WILDCARD.split(inner))
    # A folder's files belong to its owner, and `docs/*` names no folder of docs.
    below = "/.*" if pattern.endswith("/") else "" if inner.endswith("/*") else "(?:/.*)?"
    return re.compile(f"{anywhere}{''.join(parts)}{below}")
