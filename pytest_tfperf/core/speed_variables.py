"""Environment variables that may change the speed of a worker or a program: a measurement keeps those that are set."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from pytest_tfperf.lines import without_passwords

FACT: Final = "environment_variables"
"""The name of these variables in a measurement's environment; older measurements lack it."""

REASONS: Final[Mapping[str, str]] = {
    "OMP_*": "OpenMP's threads, and the cores that they stay on",
    "KMP_*": "threads of Intel's and LLVM's OpenMP, and how long they spin",
    "GOMP_*": "the cores of GCC's OpenMP threads",
    "MKL_*": "MKL's threads and instructions",
    "OPENBLAS_*": "OpenBLAS's threads and instructions",
    "GOTO_NUM_THREADS": "OpenBLAS's threads",
    "BLIS_*": "BLIS's threads and instructions",
    "NUMEXPR_*": "threads of pandas' and PyTables' expressions",
    "NUMBA_*": "Numba's threads, or no compilation at all",
    "NPY_DISABLE_CPU_FEATURES": "NumPy without vector instructions",
    "ATEN_CPU_CAPABILITY": "PyTorch without vector instructions",
    "DNNL_*": "oneDNN's instructions, and its log of each operation",
    "ONEDNN_*": "oneDNN's instructions, and its log of each operation",
    "TBB_*": "threads of Intel's TBB",
    "RAYON_NUM_THREADS": "threads of tokenizers and other Rust code",
    "TOKENIZERS_PARALLELISM": "a single thread for tokenizers",
    "POLARS_MAX_THREADS": "Polars' threads",
    "TF_ENABLE_*": "oneDNN's kernels, layouts and other optimisations of TensorFlow",
    "TF_DISABLE_*": "kernels and optimisations that TensorFlow does without",
    "TF_NUM_*": "TensorFlow's threads",
    "TF_GPU_*": "TensorFlow's threads and allocator of a GPU",
    "TF_FORCE_*": "memory that grows step by step",
    "TF_CUDNN*": "cuDNN's search for the fastest algorithm",
    "TF_AUTOTUNE*": "the search for the fastest algorithm",
    "TF_DETERMINISTIC*": "slower, deterministic kernels",
    "TF_XLA_FLAGS": "what XLA compiles in TensorFlow",
    "TF_USE_LEGACY_KERAS": "another Keras",
    "XLA_*": "XLA's optimisations, and JAX's memory",
    "JAX_ENABLE_*": "64-bit numbers, and checks",
    "JAX_DISABLE_*": "no compilation",
    "JAX_DEFAULT_*": "the precision of matrix products",
    "JAX_DEBUG_*": "checks after each operation",
    "JAX_PLATFORM*": "the kind of device",
    "KERAS_BACKEND": "another framework below Keras",
    "TORCH_*": "TF32, cuDNN, NCCL, compilation and logs of PyTorch",
    "TORCHDYNAMO_*": "compilation in PyTorch",
    "TORCHINDUCTOR_*": "optimisations of PyTorch's compiler",
    "PYTORCH_*": "PyTorch's allocators",
    "TRITON_*": "Triton's interpreter and debugger",
    "ACCELERATE_*": "Accelerate's precision and devices",
    "NCCL_*": "how GPUs exchange gradients",
    "UCX_*": "how nodes exchange gradients",
    "HOROVOD_CYCLE_TIME": "how often Horovod exchanges gradients",
    "HOROVOD_FUSION_THRESHOLD": "how much Horovod exchanges at once",
    "HOROVOD_HIERARCHICAL_*": "how Horovod exchanges gradients",
    "CUDA_*": "waiting for each kernel, loading, caches, connections and MPS of CUDA",
    "CUBLAS*": "cuBLAS's workspace and logs",
    "CUDNN_*": "cuDNN's logs",
    "NVIDIA_TF32_OVERRIDE": "matrix products without TF32",
    "LD_PRELOAD": "code that takes the place of other code, such as an allocator or a profiler",
    "LD_LIBRARY_PATH": "other versions of libraries",
    "GLIBC_TUNABLES": "glibc's allocator and instructions",
    "MALLOC_*": "glibc's and jemalloc's allocators",
    "TCMALLOC_*": "tcmalloc's thresholds",
    "PYTHONDEVMODE": "Python's debug mode",
    "PYTHONMALLOC*": "Python's debugging allocator",
    "PYTHONTRACEMALLOC": "a trace of each allocation in Python",
    "PYTHONOPTIMIZE": "Python without asserts",
    "PYTHONPERFSUPPORT": "Python's frames for perf",
    "PYTHON_CPU_COUNT": "the number of CPUs that Python tells",
    "PYTHON_GIL": "threads of Python side by side",
    "PYTHON_JIT": "Python's compiler",
}
"""Each variable, or all with a prefix ("OMP_*"), and what it may change."""

# The first two choose a test's devices, and pytest-tfperf sets them, too. The others are versions and folders.
_OF_NO_SPEED: Final = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),
    *("CUDA_HOME", "CUDA_PATH", "CUDA_VERSION", "NCCL_VERSION", "TORCH_HOME"),
)


def is_speed_variable(name: str) -> bool:
    """Whether a variable may change the speed, apart from those that choose devices."""
    return name not in _OF_NO_SPEED and any(fnmatchcase(name, known) for known in REASONS)


def speed_variables(variables: Mapping[str, str]) -> str:
    """Write those that are set as one text without blanks: "NCCL_ALGO=Ring,OMP_NUM_THREADS=1"; "none" without any.

    Passwords are hidden.
    """
    texts = []
    for name in filter(is_speed_variable, sorted(variables)):
        value = without_passwords(os.fsencode(variables[name]).decode(errors="replace"))
        if value.strip():
            texts.append(f"{name}={'_'.join(value.split())}")
    return ",".join(texts) or "none"


def each_apart(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which each variable stands under its own name.

    >>> each_apart({"numpy": "2.4.1", "environment_variables": "MKL_CBWR=AVX2,OMP_PLACES={0},{1}"})
    {'numpy': '2.4.1', 'MKL_CBWR': 'AVX2', 'OMP_PLACES': '{0},{1}'}
    """
    others = {name: value for name, value in environment.items() if name != FACT}
    parts = re.split(r",(?=[A-Z][A-Z0-9_]*=)", environment.get(FACT, ""))
    return others | dict(part.split("=", 1) for part in parts if "=" in part)


def is_variable(name: str) -> bool:
    """Whether a name in such an environment is a variable's: those of software and of the machine are in lower case."""
    return name.isupper()
