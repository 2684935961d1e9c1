"""A whole text from a path, a pipe or standard input, each read once."""

from __future__ import annotations

import gzip
import sys
import zlib
from pathlib import Path
from typing import Final

from pytest_tfperf.errors import DocumentError

STDIN: Final = Path("-")

_GZIP = b"\x1f\x8b"
_UNREAD = {b"\xfd7zXZ": ("xz", "xzcat"), b"BZh": ("bzip2", "bzcat"), b"\x28\xb5\x2f\xfd": ("zstd", "zstdcat")}
_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_PROBE = 200  # bytes of a file that show whether it is UTF-16
_UTF8_BOM = "\ufeff"


def read(path: Path) -> str:
    """The text of a file, a pipe or, as "-", standard input; gzip is unpacked, and UTF-16 is read where its mark leads.

    Raises:
        DocumentError: it can't be read, or is compressed in another way; names the next step.
    """
    if path == STDIN and sys.stdin is None:
        raise DocumentError("standard input is closed. Send a log to it: tfperf replay - < FILE")
    try:
        data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except OSError as error:
        raise DocumentError(
            f"{shown(path)} can't be read: {error.strerror}. Give the path of a log or an export"
        ) from None
    return decode(data, shown(path))


def shown(path: Path) -> str:
    """The file's name in messages and tables."""
    return "standard input" if path == STDIN else str(path)


def decode(data: bytes, name: str) -> str:
    """`read` for bytes; those that are no text do not hide the rest. Byte-order marks are left out."""
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            raise DocumentError(f"{name} is a damaged or cut off gzip file. Copy it again, whole") from None
    for magic, (kind, program) in _UNREAD.items():
        if data.startswith(magic):
            raise DocumentError(f"{name} is compressed with {kind}. Unpack it first: {program} FILE | tfperf replay -")
    encoding = _UTF16.get(data[:2])
    # Half of UTF-16's bytes are zero where the text is English; a UTF-8 log may begin with a program's stray bytes.
    if encoding is None or data[:_PROBE].count(0) < len(data[:_PROBE]) // 4:
        encoding = "utf-8"
    return data.decode(encoding, errors="replace").replace(_UTF8_BOM, "")
