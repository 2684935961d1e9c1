"""A file that a session writes at its end: what would keep it from being written is found before the first test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    from pathlib import Path


def require_writable(path: Path, option: str) -> None:
    """Open the file for writing, and leave everything as it was.

    Raises:
        TfperfError: it can't be opened; says why, and which option named it.
    """
    is_new = not path.exists()
    try:
        with path.open("a"):
            pass
        if is_new:
            path.unlink()
    except OSError as error:
        raise TfperfError(
            f"{option}: {path} can't be written: {error.strerror}. Name a file in a folder that exists and is yours"
        ) from None
