"""CODEOWNERS: whom each file of a repository belongs to, as GitHub and GitLab read it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from pathlib import Path

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
