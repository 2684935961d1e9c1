"""The versions of CUDA's libraries are those that are loaded; here of stand-ins, which a C compiler makes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_tfperf.training.libraries import loaded

RETURNED = "unsigned long {name}(void) {{ return {number}; }}"
WRITTEN = "int {name}(int *to) {{ *to = {number}; return 0; }}"

LOAD = """
import ctypes, json, sys
from pytest_tfperf.training.libraries import loaded
ctypes.CDLL(sys.argv[1])
print(json.dumps(loaded()))
"""


def made(folder: Path, file: str, source: str) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to make a library with")
    folder.mkdir(exist_ok=True)
    (folder / "it.c").write_text(source)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / file, folder / "it.c"], check=True)
    return folder / file


@pytest.mark.parametrize(
    ("file", "source", "function", "number", "said"),
    [
        ("libcudnn.so.9", RETURNED, "cudnnGetVersion", 90300, {"cudnn_loaded": "9.3.0"}),
        ("libcudnn.so.8", RETURNED, "cudnnGetVersion", 8907, {"cudnn_loaded": "8.9.7"}),
        ("libcublasLt.so.12", RETURNED, "cublasLtGetVersion", 120903, {"cublas_loaded": "12.9.3"}),
        ("libnccl.so.2", WRITTEN, "ncclGetVersion", 22105, {"nccl_loaded": "2.21.5"}),
        ("libcudart.so.12", WRITTEN, "cudaRuntimeGetVersion", 12050, {"cuda_loaded": "12.5"}),
        ("libcudnn.so.9", RETURNED, "another", 1, {}),
        ("libcudnn_ops.so.9", RETURNED, "cudnnGetVersion", 90300, {}),
    ],
)
def test_what_is_loaded_is_asked_for_its_version(
    tmp_path: Path, file: str, source: str, function: str, number: int, said: dict[str, str]
) -> None:
    library = made(tmp_path / "with a blank", file, source.format(name=function, number=number))
    done = subprocess.run([sys.executable, "-c", LOAD, library], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == said


def test_nothing_is_loaded_to_be_asked(tmp_path: Path) -> None:
    library = made(tmp_path, "libcudnn.so.9", RETURNED.format(name="cudnnGetVersion", number=90300))
    maps = tmp_path / "maps"
    maps.write_text(f"7f0000000000-7f0000001000 r-xp 00000000 08:01 4711 {' ' * 20} {library}\n")
    assert loaded(maps) == {}


def test_a_system_without_maps_tells_nothing(tmp_path: Path) -> None:
    assert loaded(tmp_path / "none") == {}
