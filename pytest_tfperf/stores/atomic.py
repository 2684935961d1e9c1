"""A file put in another's place in one step, so that no reader and no crash ever sees half of it."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Write `data` beside `path`, to disk, and rename it.

    Raises:
        OSError: it can't be written; what was there before is untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink()
