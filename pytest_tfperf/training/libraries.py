"""Which of CUDA's libraries this process has loaded: they may be others than those that TensorFlow was built with."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

MAPS = Path("/proc/self/maps")


def loaded(maps: Path = MAPS) -> dict[str, str]:
    """Versions by name, such as "cudnn_loaded", of what is in memory by now; nothing is loaded for it.

    To be asked after a step: TensorFlow loads cuDNN and NCCL when they are first used.
    """
    found = {}
    for path in _mapped(maps):
        for stem, (name, version) in _ASKED.items():
            if re.match(rf"{stem}\.so\b", Path(path).name):
                found[name] = _told(path, version)
    return {name: version for name, version in sorted(found.items()) if version}


def _mapped(maps: Path) -> list[str]:
    """The files that this process has mapped; blanks in their names are kept."""
    try:
        lines = maps.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    return sorted({columns[5] for line in lines if len(columns := line.split(None, 5)) == 6})


def _told(path: str, version: Callable[[Any], str]) -> str:
    try:
        return version(ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY))
    except (OSError, AttributeError):  # replaced on disk meanwhile, or without the function
        return ""


def _returned(function: str, dotted: Callable[[int], str]) -> Callable[[Any], str]:
    """Asks a function that returns the number."""

    def ask(library: Any) -> str:
        call = getattr(library, function)
        call.restype = ctypes.c_size_t
        return dotted(call())

    return ask


def _written(function: str, dotted: Callable[[int], str]) -> Callable[[Any], str]:
    """Asks a function that writes the number where its argument points, and returns 0."""

    def ask(library: Any) -> str:
        number = ctypes.c_int()
        failed = getattr(library, function)(ctypes.byref(number))
        return "" if failed else dotted(number.value)

    return ask


def _thousands(number: int) -> str:
    """CUDA's: 12050 is 12.5."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _ten_thousands(number: int) -> str:
    """cuBLAS', cuDNN's and NCCL's: 90300 is 9.3.0; before cuDNN 9 and NCCL 2.9 in thousands, 8907 is 8.9.7."""
    most = 10_000 if number >= 10_000 else 1_000
    return f"{number // most}.{number % most // 100}.{number % 100}"


# The start of a library's file name -> its name in the environment, and how it tells its version.
_ASKED = {
    "libcudart": ("cuda_loaded", _written("cudaRuntimeGetVersion", _thousands)),
    "libcudnn": ("cudnn_loaded", _returned("cudnnGetVersion", _ten_thousands)),
    "libcublasLt": ("cublas_loaded", _returned("cublasLtGetVersion", _ten_thousands)),
    "libnccl": ("nccl_loaded", _written("ncclGetVersion", _ten_thousands)),
}
