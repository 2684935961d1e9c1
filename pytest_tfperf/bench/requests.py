"""How much memory a worker had asked for when it got none: TensorFlow, XLA and NumPy say it, each in its own words."""

from __future__ import annotations

import math
import re

ON_A_GPU = re.compile(r"\bdevice:GPU:\d|\bGPU_\d+_bfc")
"""In TensorFlow's words, a request for a GPU's memory."""

_SHAPE = re.compile(r"with shape ?[\[(](?P<shape>\d+(?:, ?\d+)*),?[\])] and (?:data )?type (?P<type>\w+)")
_BYTES = re.compile(r"trying to allocate (?P<bytes>\d+) bytes")
_SIZES = {
    **dict.fromkeys(("uint8", "int8", "bool"), 1),
    **dict.fromkeys(("half", "float16", "bfloat16", "int16"), 2),
    **dict.fromkeys(("float", "float32", "int32"), 4),
    **dict.fromkeys(("double", "float64", "int64"), 8),
}


def requested_bytes(text: str) -> int | None:
    """The largest request that an error's text tells of; None where it tells of none.

    >>> requested_bytes("OOM when allocating tensor with shape[9000000,224,224,3] and type float on /job:localhost")
    5419008000000
    """
    found = [int(one["bytes"]) for one in _BYTES.finditer(text)]
    arrays = [(one["shape"].split(","), _SIZES.get(one["type"], 0)) for one in _SHAPE.finditer(text)]
    found += [math.prod(map(int, shape)) * size for shape, size in arrays if size]
    return max(found, default=None)


def hopeless(batch: int, requested: int | None, room: int | None) -> int | None:
    """A batch from which on one request alone takes all that there is; None where that can't be told.

    Args:
        batch: asked for `requested` bytes at once. Where a part of them doesn't grow with the batch, smaller ones ask
            for more than their share, and what is hopeless is so all the more.
        requested: None where the failure did not say.
        room: bytes in all; None where nobody knows.
    """
    if requested is None or room is None or not 0 < room < requested:
        return None
    return max(1, math.ceil(batch * room / requested))
