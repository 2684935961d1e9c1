"""The pinned CUDA packages have code for the documents' GPUs, and their libraries are scanned correctly."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.gpu_architectures import RECORD, ROOT, code_of_wheel, entries, keep_only, pinned, runs_on

# TensorFlow 2.21's build_info.py, and the P100, V100, A100 and H100 among them.
BUILT_FOR = (60, 70, 80, 89, 90)
# It stands in for FFTW, has one empty kernel, and TensorFlow does not load it.
NOT_LOADED = {"libcufftw.so.11"}


def test_the_packages_that_are_pinned_were_scanned() -> None:
    """After a change of constraints.txt: python -m tools.gpu_architectures."""
    pins = pinned((ROOT / "constraints.txt").read_text())
    assert {f"{package}=={version}" for package, version in pins.items()} == set(json.loads(RECORD.read_text()))


@pytest.mark.parametrize("capability", BUILT_FOR)
def test_each_cuda_library_has_code_for_the_gpus_that_tensorflow_is_built_for(capability: int) -> None:
    libraries = {name: code for found in json.loads(RECORD.read_text()).values() for name, code in found.items()}
    without = {name for name, code in libraries.items() if not runs_on(code, capability)}
    assert without - NOT_LOADED == set()


@pytest.mark.parametrize(
    ("code", "capability", "runs"),
    [
        ({"sass": [60, 80]}, 61, True),
        ({"sass": [60, 80]}, 70, False),
        ({"sass": [61]}, 60, False),
        ({"ptx": [52]}, 90, True),
        ({"ptx": [120], "sass": [75]}, 70, False),
    ],
)
def test_finished_code_runs_on_its_major_version_and_ptx_on_all_later_gpus(
    code: dict[str, list[int]], capability: int, runs: bool
) -> None:
    assert runs_on(code, capability) is runs


def fat_binary(parts: list[tuple[int, int, bytes]]) -> bytes:
    """Of kinds (1: PTX, 2: finished), compute capabilities and code."""
    body = b"".join(
        struct.pack("<HHIQ12sI32x", kind, 0x101, 64, len(code), b"", capability) + code
        for kind, capability, code in parts
    )
    return b"\x50\xed\x55\xba" + struct.pack("<HHQ", 1, 16, len(body)) + body


parts = st.lists(st.tuples(st.sampled_from([1, 2]), st.integers(50, 130), st.binary(max_size=20)), max_size=4)


@given(st.lists(st.tuples(st.binary(max_size=20), parts), max_size=3), st.binary(max_size=20))
def test_all_entries_of_all_fat_binaries_are_found(
    found: list[tuple[bytes, list[tuple[int, int, bytes]]]], end: bytes
) -> None:
    library = b"".join(before + fat_binary(of) for before, of in found) + end
    kinds = {1: "ptx", 2: "sass"}
    assert [
        (entry.kind, entry.capability, library[entry.offset : entry.offset + entry.size]) for entry in entries(library)
    ] == [(kinds[kind], capability, code) for _, of in found for kind, capability, code in of]


@given(st.binary(max_size=60).map(lambda noise: fat_binary([(2, 90, b"code")]) + b"\x50\xed\x55\xba" + noise))
def test_the_magic_number_may_stand_anywhere(library: bytes) -> None:
    assert ("sass", 90) in [(entry.kind, entry.capability) for entry in entries(library)]


def test_the_code_for_one_gpu_is_kept_and_all_other_is_zeroed(tmp_path: Path) -> None:
    library = tmp_path / "liba.so.1"
    library.write_bytes(b"\x7fELF" + fat_binary([(2, 70, b"volta"), (1, 90, b"ptx"), (2, 90, b"hopper")]) + b"end")
    assert keep_only(90, library) == len(b"volta")
    assert (
        library.read_bytes()
        == b"\x7fELF" + fat_binary([(2, 70, bytes(5)), (1, 90, b"ptx"), (2, 90, b"hopper")]) + b"end"
    )


def test_the_libraries_of_a_wheel_are_scanned(tmp_path: Path) -> None:
    wheel = tmp_path / "a.whl"
    with ZipFile(wheel, "w") as archive:
        archive.writestr("nvidia/a/lib/liba.so.1", b"\x7fELF" + fat_binary([(2, 70, b""), (1, 90, b""), (2, 60, b"")]))
        archive.writestr("nvidia/a/lib/libb.so.1", b"\x7fELF")
        archive.writestr("nvidia/a/a.py", "")
    assert code_of_wheel(wheel) == {"liba.so.1": {"ptx": [90], "sass": [60, 70]}}
