"""The file with a session's key: read by the ranks that call, and made for those that the session starts."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_tfperf.errors import TfperfError


def read_key(path: Path) -> str:
    """The key in a file, 64 hexadecimal digits.

    Raises:
        TfperfError: the file is missing, others may read it, or it holds something else; says how to make one.
    """
    made_by = f"Make one: (umask 077; openssl rand -hex 32 > {path})"
    try:
        key, mode = path.read_text(encoding="ascii").strip(), path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise TfperfError(f"the key file {path} can't be read: {error}", next_step=made_by) from None
    if re.fullmatch("[0-9a-f]{64}", key) is None:
        raise TfperfError(f"the key file {path} must hold 64 hexadecimal digits", next_step=made_by)
    if stat.S_IMODE(mode) & 0o077:
        raise TfperfError(f"the key file {path} can be read by others (mode {stat.S_IMODE(mode):o}): chmod 600 {path}")
    return key


@contextmanager
def new_key_file(folder: Path, key: str) -> Iterator[Path]:
    """A new file of mode 600 with this key, for as long as the block lasts.

    Files that killed sessions left in the folder are removed: a file's owner holds a lock on it, and loses the lock in
    whatever way it ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _remove_left_files(folder)
    path = folder / f"key-{secrets.token_hex(6)}"
    unlocked = path.with_name(f".{path.name}")  # hidden from other sessions until it is locked
    try:
        unlocked.touch(0o600, exist_ok=False)
        with unlocked.open("r+", encoding="ascii") as file:
            _lock(file.fileno())
            unlocked.rename(path)
            file.write(f"{key}\n")
            file.flush()
            os.fsync(file.fileno())  # on NFS another node would see an open file empty
            yield path
    finally:
        for left in (unlocked, path):
            left.unlink(missing_ok=True)


def _remove_left_files(folder: Path) -> None:
    import fcntl  # not at the top: Windows has none, and tests there import our types

    for path in folder.glob("key-" + 12 * "[0-9a-f]"):
        # It is in use, another user's, just removed, or on a file system without locks.
        with suppress(OSError), path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def _lock(file: int) -> None:
    import fcntl

    with suppress(OSError):  # without locks, no other session can remove the file either
        fcntl.flock(file, fcntl.LOCK_EX)
