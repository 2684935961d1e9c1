"""The software of a worker: versions, settings that change its speed, and the files and libraries that it loaded."""

from __future__ import annotations

import ctypes
import os
import platform
import site
import sys
import sysconfig
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from pytest_tfperf.core.speed_variables import FACT, speed_variables
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.training.process import PINNED
from pytest_tfperf.workers import catalogue


def environment() -> dict[str, str]:
    """Versions and settings of this process, name -> value, such as "tensorflow" -> "2.21.0".

    Call it after the first step: TensorFlow loads cuDNN and NCCL when they are first used.
    """
    build = tf.sysconfig.get_build_info()
    facts = {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
        "cuda_build": build.get("cuda_version", ""),
        "cudnn_build": build.get("cudnn_version", ""),
        "threads": str(tf.config.threading.get_intra_op_parallelism_threads() or ""),
        "tf32": tf32_in_use(os.environ),
        FACT: speed_variables({name: value for name, value in os.environ.items() if name not in PINNED}),
    }
    return {name: value for name, value in facts.items() if value} | loaded_libraries()


def tf32_in_use(variables: Mapping[str, str]) -> str:
    """Whether float32 factors are rounded to TF32: "on", "off", or "" if no visible GPU has TF32."""
    capabilities = [
        tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0))
        for gpu in tf.config.get_visible_devices("GPU")
    ]
    if not any(capability >= (8, 0) for capability in capabilities):
        return ""
    # NVIDIA's libraries obey this variable, whatever TensorFlow says.
    forbidden = variables.get("NVIDIA_TF32_OVERRIDE") == "0"
    return "on" if tf.config.experimental.tensor_float_32_execution_enabled() and not forbidden else "off"


# The start of a library's file name -> its name in the environment, and the function that gives its version.
_LIBRARIES = {
    "libcudnn": ("cudnn_loaded", "cudnnGetVersion"),
    "libcublasLt": ("cublas_loaded", "cublasLtGetVersion"),
    "libnccl": ("nccl_loaded", "ncclGetVersion"),
}


def loaded_libraries(maps: Path = Path("/proc/self/maps")) -> dict[str, str]:
    """Name -> version as the library's own number, such as "cudnn_loaded" -> "90300"; loads none itself.

    TensorFlow may have been built with other versions, because pip can replace them separately.
    """
    lines = maps.read_text("utf-8", "replace").splitlines()
    versions = {}
    for path in sorted({line[line.index("/") :] for line in lines if "/" in line}):
        name, function = _LIBRARIES.get(Path(path).name.partition(".so")[0], ("", ""))
        if name:
            with suppress(OSError, AttributeError):  # the file was replaced since, or lacks the function
                versions[name] = str(_version(ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY), function))
    return versions


def _version(library: ctypes.CDLL, function: str) -> int:
    call = getattr(library, function)
    if function != "ncclGetVersion":
        return int(call())
    number = ctypes.c_int()  # NCCL writes it where the argument points
    call(ctypes.byref(number))
    return number.value


def loaded_files(workload: Workload) -> dict[str, str]:
    """Module -> file, links followed: the workload's own modules, top-level modules, and all that pip did not install.

    Left out are modules inside of installed packages, of which there are thousands, and this package.
    """
    targets = (catalogue.resolve("model", workload.model), catalogue.resolve("input_pipeline", workload.input_pipeline))
    named = {target.partition(":")[0] for target in targets}
    files: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name.partition(".")[0] == "pytest_tfperf":
            continue
        if name in named or "." not in name or not file.startswith(_INSTALLED):
            files[name] = os.path.realpath(file)
    return files


_PATHS = (*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),)
_INSTALLED = tuple(
    f"{folder}{os.sep}" for folder in {*_PATHS, *site.getsitepackages(), site.getusersitepackages()} if folder
)
