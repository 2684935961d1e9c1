"""Users' files: read whole, also from a pipe or standard input, and replaced atomically, even in a crash."""

from __future__ import annotations

import gzip
import io
import os
import secrets
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from pytest_tfperf.errors import TfperfError, worded


def replace(path: Path, data: bytes) -> None:
    """Replace a file by way of a temporary file beside it; a pipe or a device, as /dev/stdout, is written directly.

    Raises:
        OSError: it can't be written; the earlier file is untouched.
    """
    if _is_stream(path):
        path.write_bytes(data)
        return
    path = path.resolve()  # a link stays, and its target is replaced
    # Random, because containers that share a volume may have equal pids; short, because `path` may have the longest
    # name that is allowed. "x" follows no link.
    temporary = path.with_name(f".tfperf-{secrets.token_hex(8)}")
    file = temporary.open("xb")
    try:
        with file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep others that lock this folder waiting until the block ends: a file is read, changed and replaced in one step.

    Without effect where the folder is missing, or on a file system without locks.
    """
    import fcntl  # pytest's start imports this file, also where there is none

    with ExitStack() as opened:
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            opened.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def require_writable(path: Path, option: str) -> None:
    """Check before any work that `replace` can write a file.

    Raises:
        TfperfError: its folder does not exist or can't be written, or the path is a folder; names the option.
    """
    if path.is_dir():
        raise TfperfError(f"{option}={path}: that is a folder", next_step="Name a file in it")
    if _is_stream(path):
        return
    if not path.parent.exists():
        raise TfperfError(
            f"{option}={path}: there is no folder {path.parent}", next_step="Make it, or name another file"
        )
    way_out = f"Name another file, or correct the permissions of {path.parent}"
    with worded(f"{option}={path}", "written", way_out), tempfile.TemporaryFile(dir=path.parent):
        pass


def _is_stream(path: Path) -> bool:
    return path.exists() and not path.is_file()


STDIN: Final = Path("-")

_GZIP = b"\x1f\x8b"
_UNREAD = {b"\xfd7zXZ": ("xz", "xzcat"), b"BZh": ("bzip2", "bzcat"), b"\x28\xb5\x2f\xfd": ("zstd", "zstdcat")}
_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_MOST_GUNZIPPED: Final = 256 * 2**20  # bytes; the largest logs and exports have a few million
_PROBE = 200  # bytes of a file that show whether it is UTF-16
_UTF8_BOM = "\ufeff"


def read(path: Path) -> str:
    """Return the text of a file, a pipe or, as "-", standard input; gzip and UTF-16 with a byte order mark are decoded.

    Raises:
        TfperfError: it can't be read, or is compressed in another way; names the next step.
    """
    if path == STDIN and sys.stdin is None:
        raise TfperfError("standard input is closed", next_step="Send a log to it: tfperf replay - < FILE")
    with worded(shown(path), "read", "Give the path of a log or an export"):
        data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    return decode(data, shown(path))


def shown(path: Path) -> str:
    """Return the file's name for messages and tables."""
    return "standard input" if path == STDIN else str(path)


def decode(data: bytes, name: str) -> str:
    """Decode a file's bytes as `read` does: invalid bytes are replaced, byte order marks left out."""
    if data.startswith(_GZIP):
        data = _gunzipped(data, name)
    for magic, (kind, program) in _UNREAD.items():
        if data.startswith(magic):
            raise TfperfError(
                f"{name} is compressed with {kind}", next_step=f"Unpack it first: {program} FILE | tfperf replay -"
            )
    encoding = _UTF16.get(data[:2])
    # Half of UTF-16's bytes are zero where the text is English; a UTF-8 log may begin with a program's stray bytes.
    if encoding is None or data[:_PROBE].count(0) < len(data[:_PROBE]) // 4:
        encoding = "utf-8"
    return data.decode(encoding, errors="replace").replace(_UTF8_BOM, "")


def _gunzipped(data: bytes, name: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            text = file.read(_MOST_GUNZIPPED + 1)
    except (OSError, EOFError, zlib.error):
        raise TfperfError(f"{name} is a damaged or cut off gzip file", next_step="Copy it again, whole") from None
    if len(text) > _MOST_GUNZIPPED:
        raise TfperfError(
            f"{name} unpacks to more than {_MOST_GUNZIPPED // 2**20} MiB",
            next_step="If it is to be so long, unpack it first: gunzip FILE",
        )
    return text
