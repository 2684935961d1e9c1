"""A file put in another's place in one step, so that no reader and no crash ever sees half of it."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Write `data` beside `path`, to disk, and rename it; permissions stay, and a link stays a link.

    Raises:
        OSError: it can't be written; what was there before is untouched.
    """
    target = path.resolve()
    temporary = target.with_name(f".{target.name[:200]}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            if target.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        _sync_folder(target.parent)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut; some file systems can't, and the file is in place anyway."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
