"""Files that are replaced in one step: neither a reader nor a crash leaves half of one."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Write `data` beside `path`, to disk, and rename it; a pipe or a device, as /dev/stdout, is written to instead.

    Raises:
        OSError: it can't be written; what was there before is untouched.
    """
    if _is_stream(path):
        path.write_bytes(data)
        return
    path = path.resolve()  # a link stays, and what it leads to is replaced
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


def require_writable(path: Path, option: str) -> None:
    """Refuse a file that `replace` could not write, before work is done for it.

    Raises:
        TfperfError: there is no such folder, it can't be written, or the path is a folder; names the option.
    """
    if path.is_dir():
        raise TfperfError(f"{option}={path}: that is a folder. Name a file in it")
    if _is_stream(path):
        return
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except FileNotFoundError:
        raise TfperfError(f"{option}={path}: there is no folder {path.parent}. Make it, or name another file") from None
    except OSError as error:
        raise TfperfError(
            f"{option}={path} can't be written: {error.strerror}. Name another file, or correct the permissions of "
            f"{path.parent}"
        ) from None


def _is_stream(path: Path) -> bool:
    return path.exists() and not path.is_file()
