"""The measurements in files of other machines: results, exports, documents of a history, and archives with these."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.errors import TfperfError, worded
from pytest_tfperf.stores import files, measurement_file

_MOST_BYTES: Final = 256 * 2**20  # of a file, and of all that an archive has unpacked
_MOST_MEMBERS: Final = 10_000
_NAMES: Final = (".json", ".json.gz")
_NEXT: Final = "Give a session's --tfperf-json or `tfperf history --export`, or a CI job's archive (.zip) with one"


def read_from(path: Path) -> list[Measurement]:
    """Return the measurements of a file, in its order; nothing of an archive is written.

    Raises:
        TfperfError: it can't be read, is too large or damaged, or has no measurements.
    """
    with worded(str(path), "read", _NEXT):
        if path.stat().st_size > _MOST_BYTES:
            raise TfperfError(f"{path} has more than {_MOST_BYTES // 2**20} MiB", next_step=_NEXT)
        data = path.read_bytes()
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return list(_measurements(data, str(path)))
    found = [m for name, member in _members(data, str(path)) for m in _measurements(member, name, is_one_of_many=True)]
    if not found:
        raise TfperfError(f"{path} has no file with measurements (.json, .json.gz)", next_step=_NEXT)
    return found


def _members(data: bytes, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of an archive's JSON files."""
    room = _MOST_BYTES
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(_NAMES)]
            for member in members[:_MOST_MEMBERS]:
                with archive.open(member) as file:
                    content = file.read(room + 1)
                room -= len(content)
                if room < 0:
                    raise TfperfError(f"{name} unpacks to more than {_MOST_BYTES // 2**20} MiB", next_step=_NEXT)
                yield f"{name}: {member.filename}", content
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise TfperfError(f"{name}: damaged, or packed in a way that is not read ({error})", next_step=_NEXT) from None


def _measurements(data: bytes, name: str, *, is_one_of_many: bool = False) -> tuple[Measurement, ...]:
    text = files.decode(data, name)
    if is_one_of_many and not measurement_file.is_measurement_file(text):
        return ()  # an archive may hold any other JSON
    return measurement_file.parse(text, name)
