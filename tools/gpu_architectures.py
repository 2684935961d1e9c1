"""Which GPUs the pinned CUDA packages have code for.

    python -m tools.gpu_architectures            # what changed in constraints.txt, written to tests/data/gpu_code.json
    python -m tools.gpu_architectures FILE...    # what wheels and libraries have, printed
    python -m tools.gpu_architectures --keep=90 LIBRARY   # zeroes all other code in it, so that it is packed small

For each `nvidia-*-cu12` that constraints.txt pins and the file does not know in that version, it downloads the wheel
and scans the libraries in it: 3 GB and two minutes for all of them, nothing where the file is complete. A test holds
that the file is complete, and that all packages have code for the GPUs for which TensorFlow is built.

A library holds its code for GPUs in fat binaries: a header, and entries for one compute capability each, of PTX, which
a driver compiles for later GPUs, or of finished code (SASS). NVIDIA does not document the format; the offsets are those
of CUDA's fatbinary_section.h and of what `cuobjdump` prints.
"""

from __future__ import annotations

import json
import mmap
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
RECORD: Final = ROOT / "tests" / "data" / "gpu_code.json"

_MAGIC: Final = b"\x50\xed\x55\xba"
_HEADER: Final = struct.Struct("<4sHHQ")  # magic, version, size of the header, size of all entries
_ENTRY: Final = struct.Struct("<HHIQ")  # kind, version, size of the entry's header, size of its code
_CAPABILITY_AT: Final = 28  # in an entry's header: 90 for 9.0
_KINDS: Final = {1: "ptx", 2: "sass"}

Code = dict[str, list[int]]
"""Kind -> compute capabilities, as 90 for 9.0."""


@dataclass(frozen=True)
class Entry:
    """The code of a kind for a compute capability, 90 for 9.0, which begins at an offset and has this size."""

    kind: str
    capability: int
    offset: int
    size: int


def entries(data: bytes | mmap.mmap) -> Iterator[Entry]:
    """Each entry of all fat binaries in a library."""
    at = data.find(_MAGIC)
    while at >= 0:
        after = at + len(_MAGIC)  # the magic may be a constant in the library's own code
        if at + _HEADER.size <= len(data):
            _, _, header, size = _HEADER.unpack_from(data, at)
            if header == _HEADER.size and at + header + size <= len(data):
                yield from _in_fat_binary(data, at + header, at + header + size)
                after = max(after, at + header + size)
        at = data.find(_MAGIC, after)


def _in_fat_binary(data: bytes | mmap.mmap, begin: int, end: int) -> Iterator[Entry]:
    while begin + _CAPABILITY_AT + 4 <= end:
        kind, _, header, size = _ENTRY.unpack_from(data, begin)
        if kind not in _KINDS or not _CAPABILITY_AT + 4 <= header <= 4096:
            return
        capability = struct.unpack_from("<I", data, begin + _CAPABILITY_AT)[0]
        yield Entry(_KINDS[kind], capability, begin + header, size)
        begin += header + size


def code_of(library: Path) -> Code:
    """The code in a library; {} without any."""
    if not library.stat().st_size:
        return {}
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = {(entry.kind, entry.capability) for entry in entries(data)}
    return {kind: sorted(number for of, number in found if of == kind) for kind in sorted({of for of, _ in found})}


def keep_only(capability: int, library: Path) -> int:
    """Zero the code for all other GPUs in a library; returns how many bytes that were."""
    zeroed = 0
    with library.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        for entry in entries(data):
            if entry.capability != capability:
                data[entry.offset : entry.offset + entry.size] = bytes(entry.size)
                zeroed += entry.size
    return zeroed


def code_of_wheel(wheel: Path) -> dict[str, Code]:
    """The code in each library of a wheel that has any, by the library's name."""
    found = {}
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        for name in archive.namelist():
            if ".so" in Path(name).name:
                library = Path(archive.extract(name, folder))
                found[library.name] = code_of(library)
                library.unlink()
    return {name: code for name, code in sorted(found.items()) if code}


def pinned(constraints: str) -> dict[str, str]:
    """The packages of CUDA that constraints.txt pins, with their versions."""
    return dict(re.findall(r"^(nvidia-[a-z-]+-cu12)==(\S+)$", constraints, re.MULTILINE))


def runs_on(code: Mapping[str, list[int]], capability: int) -> bool:
    """Whether a library has code for a GPU: finished, for its major version, or PTX that its driver compiles."""
    finished = (number // 10 == capability // 10 and number <= capability for number in code.get("sass", ()))
    return any(finished) or any(number <= capability for number in code.get("ptx", ()))


def _scan(package: str, version: str) -> dict[str, Code]:
    print(f"{package} {version}: downloading and scanning", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        subprocess.run([*command, f"{package}=={version}"], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        return code_of_wheel(wheel)


def update() -> None:
    """Scan the packages whose pins the record does not have, and drop those that are not pinned any more."""
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    pins = pinned((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    names = {f"{package}=={version}": (package, version) for package, version in pins.items()}
    scanned = {name: record[name] if name in record else _scan(*names[name]) for name in sorted(names)}
    # A list of numbers stays on its line.
    text = re.sub(r"\[[\d,\s]+\]", lambda found: " ".join(found[0].split()), json.dumps(scanned, indent=1))
    RECORD.write_text(text + "\n", encoding="utf-8")


def main(files: list[str]) -> None:
    """Print the code of wheels and libraries, or keep a part of it; without any, update the record."""
    if files and files[0].startswith("--keep="):
        print(f"{keep_only(int(files[0].partition('=')[2]), Path(files[1])):,} bytes zeroed")
        return
    if not files:
        update()
    for path in map(Path, files):
        found = code_of_wheel(path) if path.suffix == ".whl" else {path.name: code_of(path)}
        for library, code in found.items():
            print(library, *(f"{kind} {' '.join(map(str, numbers))}" for kind, numbers in code.items()), sep="  ")


if __name__ == "__main__":
    main(sys.argv[1:])
