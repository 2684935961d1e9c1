"""The key that signs messages between driver and ranks, in a file that only its owner can read."""

from __future__ import annotations

import re
import secrets
import stat
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
        raise TfperfError(f"the key file {path} can't be read: {error}. {made_by}") from None
    if re.fullmatch("[0-9a-f]{64}", key) is None:
        raise TfperfError(f"the key file {path} must hold 64 hexadecimal digits. {made_by}")
    if stat.S_IMODE(mode) & 0o077:
        raise TfperfError(f"the key file {path} can be read by others (mode {stat.S_IMODE(mode):o}): chmod 600 {path}")
    return key


def write_key(folder: Path, key: str) -> Path:
    """Write this key to a new file of mode 600."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"key-{secrets.token_hex(6)}"
    path.touch(0o600, exist_ok=False)
    path.write_text(f"{key}\n", encoding="ascii")
    return path
