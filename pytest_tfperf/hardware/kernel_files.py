"""What the kernel says in a file of /proc or /sys; nothing, where it has no such file or doesn't let us read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def text_of(path: Path) -> str:
    """The whole of it, or ""."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def line_of(path: Path) -> str:
    """Of a file that holds one line: that, without its end."""
    return text_of(path).strip()
