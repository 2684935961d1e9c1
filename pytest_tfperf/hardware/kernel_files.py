"""Text of the small files in /proc and /sys that psutil and NVML do not cover."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/")
"""Where tests lay out another machine's files instead."""


def text_of(path: Path) -> str:
    """The text without its end; "" where the file is missing or may not be read."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
