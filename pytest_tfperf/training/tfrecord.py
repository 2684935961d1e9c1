"""TFRecord files and the `tf.train.Example` in each record, written and read without TensorFlow.

A record is its length (8 bytes, little endian), that length's checksum, the payload, and its checksum. A checksum is
CRC-32C (RFC 3720, appendix B.4), rotated right by 15 bits plus a constant. An Example is a protocol buffer: a map from
names to lists of bytes, of floats or of whole numbers (tensorflow/core/example/feature.proto).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

Value = Sequence[bytes] | Sequence[float] | Sequence[int]
"""A feature's values: bytes, floats or ints, all of one kind."""

_MASK = 0xA282EAD8
_POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reversed
_HEADER = 12
_MOST_BYTES = 1 << 30  # what claims to be longer is no record
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_BYTES, _FLOATS, _INTS = 1, 2, 3


class NotTFRecords(ValueError):
    """Bytes that are no TFRecords, or no tf.train.Example; the text says what is wrong with them."""


def crc32c(data: bytes) -> int:
    """CRC-32C, in plain Python: some ms for 100 KB, which is less than it takes to make a photograph of that size."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


def framed(payload: bytes) -> bytes:
    """The record that holds `payload`."""
    length = struct.pack("<Q", len(payload))
    return b"".join((length, _masked(crc32c(length)), payload, _masked(crc32c(payload))))


def records(file: BinaryIO) -> Iterator[bytes]:
    """The payloads, in order; lengths are checked against their checksums, payloads are not.

    Raises:
        NotTFRecords: no TFRecord file, or one that is cut off; says at which record.
    """
    number = 0
    while head := file.read(_HEADER):
        length = int.from_bytes(head[:8], "little")
        if len(head) < _HEADER or _masked(crc32c(head[:8])) != head[8:] or length > _MOST_BYTES:
            raise NotTFRecords(f"record {number} does not begin with a length and its checksum")
        payload = file.read(length + 4)
        if len(payload) < length + 4:
            raise NotTFRecords(f"record {number} is cut off")
        yield payload[:-4]
        number += 1


def example(features: Mapping[str, Value]) -> bytes:
    """A serialised tf.train.Example; its features are sorted, so that equal ones give equal bytes."""
    entries = (_field(1, name.encode()) + _field(2, _feature(value)) for name, value in sorted(features.items()))
    return _field(1, b"".join(_field(1, entry) for entry in entries))


def features(payload: bytes) -> dict[str, list[bytes] | list[float] | list[int]]:
    """The features of a serialised tf.train.Example.

    Raises:
        NotTFRecords: anything else.
    """
    found = {}
    try:
        for part in _only(payload, 1):
            for entry in _only(part, 1):
                fields = dict(_fields(entry))
                name, feature = fields.get(1, b""), fields.get(2, b"")
                if not isinstance(name, bytes) or not isinstance(feature, bytes):
                    raise NotTFRecords("a feature without a name")
                found[name.decode()] = _values(feature)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise NotTFRecords("a record holds no tf.train.Example") from error
    return found


def _masked(crc: int) -> bytes:
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF)


def _table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = _table()


def _feature(value: Value) -> bytes:
    first = next(iter(value), 0)
    if isinstance(first, bytes):
        return _field(_BYTES, b"".join(_field(1, item) for item in value))  # type: ignore[arg-type]  # all of one kind
    if isinstance(first, float):
        return _field(_FLOATS, _field(1, struct.pack(f"<{len(value)}f", *value)))
    return _field(_INTS, _field(1, b"".join(_varint(int(item) & (1 << 64) - 1) for item in value)))


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise NotTFRecords("a record holds no tf.train.Example: a number without an end")


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Field number and value: bytes, or an int for a varint."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _read_varint(data, at)
            yield number, value
            continue
        if kind == _LENGTH:
            size, at = _read_varint(data, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise NotTFRecords(f"a record holds no tf.train.Example: wire type {kind}")
        if at + size > len(data):
            raise NotTFRecords("a record holds no tf.train.Example: a field is longer than its record")
        yield number, data[at : at + size]
        at += size


def _only(data: bytes, wanted: int) -> Iterator[bytes]:
    for number, value in _fields(data):
        if number == wanted and isinstance(value, bytes):
            yield value


def _values(feature: bytes) -> list[bytes] | list[float] | list[int]:
    for kind, data in _fields(feature):
        if not isinstance(data, bytes):
            continue
        if kind == _BYTES:
            return list(_only(data, 1))
        items = [item for number, item in _fields(data) if number == 1]
        if kind == _FLOATS:  # packed, or one by one
            return [x for item in items if isinstance(item, bytes) for (x,) in struct.iter_unpack("<f", item)]
        if kind == _INTS:
            return [x for item in items for x in ([item] if isinstance(item, int) else _varints(item))]
    return []


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _read_varint(data, at)
        yield value - (1 << 64) if value >> 63 else value
