"""What others wrote, decompressed and decoded in bounded memory, because a few bytes of it can stand for gigabytes.

A history is shared, an export is sent by others, and a rank runs on another machine. These functions read all of them,
and raise nothing but ValueError, with the reason.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, Final

MOST_BYTES: Final = 32 * 2**20
"""The most JSON of one measurement.

An hour of runs has 2.6 MB of it on CPUs, and 11 MB on eight GPUs, of which 9 MB are the telemetry of each second. The
history leaves that telemetry out where it would be more; windows alone reach this after a day.
"""

MOST_ZIPPED_BYTES: Final = MOST_BYTES // 4
"""The most that it has compressed: random digits, the least compressible part of it, shrink to a fifth."""

# A value takes up to 300 bytes of memory. In true measurements it has at least 10 bytes of JSON, mostly 20.
_LEAST_BYTES_OF_VALUE: Final = 8
_ANY: Final = 10_000  # values that a text may have, however short it is

_MOST_DIGITS: Final = 20  # of a whole number: 64 bits, with a sign


def from_json(text: str | bytes) -> Any:
    """Decode JSON, in at most some twenty times the memory of its text; of equal names in an object the last counts.

    Raises:
        ValueError: it is no JSON (`json.JSONDecodeError`), is nested too deeply, has a whole number of more than 64
            bits, or has far more values than our own texts of this length.
    """
    separators: Any = (",", "[", "{") if isinstance(text, str) else (b",", b"[", b"{")
    values = sum(map(text.count, separators))
    if values > _ANY + len(text) // _LEAST_BYTES_OF_VALUE:
        raise ValueError(f"{values:,} values in {len(text):,} bytes are no measurements")
    try:
        return json.loads(text, parse_int=_whole_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _whole_number(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:  # no float holds a long one, and arithmetic would fail later
        raise ValueError(f"a whole number has {len(digits)} digits")
    return int(digits)


def unzipped(data: bytes, most_bytes: int = MOST_BYTES) -> bytes:
    """Return what zlib compressed.

    Raises:
        ValueError: it is damaged, cut off, or decompresses to more than `most_bytes`.
    """
    whole = zlib.decompressobj()
    try:
        text = whole.decompress(data, most_bytes + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(text) > most_bytes:
        raise ValueError(f"it decompresses to more than {most_bytes / 2**20:g} MiB")
    if not whole.eof:
        raise ValueError("it is cut off")
    return text
