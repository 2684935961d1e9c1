"""Where the pages of the documentation are: they travel with the package, so they fit it, and need no network."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[1]

DOCS: Final = next(
    (folder for folder in (_PACKAGE / "docs", _PACKAGE.parent / "docs") if folder.is_dir()), _PACKAGE / "docs"
).as_uri()
"""The URL of the pages: `docs/` in an installed wheel, or that of a checkout."""


def page(name: str) -> str:
    """The URL of a page such as "cluster.md"."""
    return f"{DOCS}/{name}"
