"""Frozen dataclasses as plain JSON values and back, checked field by field; an error names the field by its path.

JSON has no infinity and no NaN, so they are the strings "inf", "-inf" and "nan". A named tuple is a list. A class with
`parse` (a workload, a link) is the string that it prints as, and a path or a date is a string, too.

A few bytes of JSON can stand for gigabytes, and others wrote much of it: a history is shared, an export is sent by
others, and a rank runs on another machine. `from_json` and `unzipped` read all of them in bounded memory, and raise
nothing but ValueError, with the reason.
"""

from __future__ import annotations

import json
import math
import reprlib
import types
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import date
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from pytest_tfperf.errors import TfperfError, known_names, unknown

T = TypeVar("T")

_NO_NUMBERS = ("inf", "-inf", "nan")


def build(cls: type[T], value: object, where: str, *, newer: bool = False) -> T:
    """Build a dataclass from a JSON object, which errors call `where`; a field with a default may be missing.

    Unknown fields are left out where a `newer` version may have written them.

    Raises:
        TfperfError: not an object, an unknown or missing field, or a value of the wrong type; names the path.
    """
    if not isinstance(value, dict):
        raise TfperfError(f"{where}: expected an object with the fields of {cls.__name__}, found {_shown(value)}")
    hints, known = _fields(cls)  # type: ignore[arg-type]  # mypy takes no class of any kind for hashable
    for name in value:
        if name not in known and not newer:
            raise TfperfError(f"{where}: {unknown('field', name)}", next_step=known_names(name, known))
    for name, field in known.items():
        if name not in value and field.default is MISSING and field.default_factory is MISSING:
            raise TfperfError(f"{where}: the field {name!r} is missing")
    given = {name: _value(hints[name], value[name], f"{where}.{name}", newer) for name in known if name in value}
    try:
        return cls(**given)
    except TfperfError as error:  # every value has its type, but the noun's own checks refuse one
        raise error.at(where) from None


@cache  # a session of 300 measurements has 35,000 objects, and hints are evaluated as text
def _fields(cls: type) -> tuple[dict[str, Any], dict[str, Field[Any]]]:
    """Return the types of the fields and the fields, each by name."""
    return get_type_hints(cls), {f.name: f for f in fields(cls)}


def plain(value: Any, *, brief: bool = False) -> Any:
    """Return values that json.dumps can write and `build` can read again; if brief, without fields at their default."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # "inf", "-inf" or "nan"
    if hasattr(value, "parse") or isinstance(value, Path | date):
        return str(value)
    if is_dataclass(value):
        given = {field: getattr(value, field.name) for field in fields(value)}
        return {
            field.name: plain(inner, brief=brief)
            for field, inner in given.items()
            if not (brief and inner == field.default)
        }
    if isinstance(value, Mapping):
        return {name: plain(inner, brief=brief) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, brief=brief) for inner in value]
    return value


def _value(hint: Any, value: object, where: str, newer: bool) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in get_args(hint):
            return None
        return _one_of_kinds([arg for arg in get_args(hint) if arg is not type(None)], value, where, newer)
    if origin is tuple and isinstance(value, list):
        return _items(get_args(hint), value, where, newer)
    if origin is Mapping and isinstance(value, dict):
        inner = get_args(hint)[1]
        return {name: _value(inner, item, f"{where}.{name}", newer) for name, item in value.items()}
    if isinstance(value, str) and hint is Path:
        return Path(value)
    if isinstance(value, str) and hasattr(hint, "parse"):
        try:
            return hint.parse(value)
        except TfperfError as error:
            raise error.at(where) from None
    if hint is date and type(value) is not date:  # a TOML file has dates of its own
        with suppress(TypeError, ValueError):
            return date.fromisoformat(value)  # type: ignore[arg-type]  # its type is what is checked
        raise TfperfError(f"{where}: expected a date, as in 2027-01-15, found {_shown(value)}")
    if is_dataclass(hint) and isinstance(hint, type):
        return build(hint, value, where, newer=newer)
    if isinstance(hint, type) and issubclass(hint, tuple) and isinstance(value, list):  # a NamedTuple
        return hint(*_items(tuple(get_type_hints(hint).values()), value, where, newer))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        if value not in list(hint):
            raise TfperfError(f"{where}: {unknown(hint.__name__, value)}", next_step=known_names(value, hint))
        return hint(str(value))
    return _plain(hint, value, where)


def _one_of_kinds(kinds: list[Any], value: object, where: str, newer: bool) -> Any:
    """Read the value as the first kind that accepts it (a workload's or a command's id), or raise the first error."""
    faults = []
    for kind in kinds:
        try:
            return _value(kind, value, where, newer)
        except TfperfError as error:
            faults.append(error)
    raise faults[0]


def _items(kinds: tuple[Any, ...], values: list[object], where: str, newer: bool) -> tuple[Any, ...]:
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(values)
    if len(kinds) != len(values):
        raise TfperfError(f"{where}: expected {len(kinds)} items, found {len(values)}")
    pairs = enumerate(zip(kinds, values, strict=True))
    return tuple(_value(kind, item, f"{where}[{i}]", newer) for i, (kind, item) in pairs)


def _plain(hint: Any, value: object, where: str) -> Any:
    # bool is a subclass of int, but `true` is not a number of cores.
    if isinstance(value, bool) is (hint is bool):
        if hint is float and isinstance(value, int | float):
            return float(value)
        if hint is float and value in _NO_NUMBERS:
            return float(str(value))
        if hint is not float and isinstance(hint, type) and isinstance(value, hint):
            return value
    expected = getattr(hint, "__name__", str(hint))
    raise TfperfError(f"{where}: expected {'list' if expected == 'tuple' else expected}, found {_shown(value)}")


def _shown(value: object) -> str:
    """Show the begin of a value that is nested as deep, or as long, as its writer liked."""
    begin = reprlib.Repr()
    begin.maxstring = begin.maxother = begin.maxlong = 60
    return f"{begin.repr(value):.60}"


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


_ZLIB_OR_GZIP: Final = 47  # of `zlib.decompressobj`: 15 for the window, and 32 to see which of the two it is


def unzipped(data: bytes, most_bytes: int = MOST_BYTES) -> bytes:
    """Return what zlib or gzip compressed.

    Raises:
        ValueError: it is damaged, cut off, or decompresses to more than `most_bytes`.
    """
    whole = zlib.decompressobj(_ZLIB_OR_GZIP)
    try:
        text = whole.decompress(data, most_bytes + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(text) > most_bytes:
        raise ValueError(f"it decompresses to more than {most_bytes / 2**20:g} MiB")
    if not whole.eof:
        raise ValueError("it is cut off")
    return text
