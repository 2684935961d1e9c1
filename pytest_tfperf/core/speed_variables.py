"""Environment variables that may change the speed of a worker or a program: a measurement keeps those that are set."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fnmatch import translate
from typing import Final

from pytest_tfperf.lines import without_passwords

FACT: Final = "environment_variables"
"""The name of these variables in a measurement's environment; older measurements lack it."""

NAMES: Final = (
    # Threads of numerical libraries, the cores that they stay on, their instructions, and logs of each operation.
    *("OMP_*", "KMP_*", "GOMP_*", "MKL_*", "OPENBLAS_*", "GOTO_NUM_THREADS", "BLIS_*", "NUMEXPR_*", "NUMBA_*"),
    *("NPY_DISABLE_CPU_FEATURES", "ATEN_CPU_CAPABILITY", "DNNL_*", "ONEDNN_*", "TBB_*", "RAYON_NUM_THREADS"),
    *("TOKENIZERS_PARALLELISM", "POLARS_MAX_THREADS"),
    # TensorFlow's threads, kernels, layouts, allocator and search for the fastest algorithm; another Keras or backend.
    *("TF_ENABLE_*", "TF_DISABLE_*", "TF_NUM_*", "TF_GPU_*", "TF_FORCE_*", "TF_CUDNN*", "TF_AUTOTUNE*"),
    *("TF_DETERMINISTIC*", "TF_XLA_FLAGS", "TF_USE_LEGACY_KERAS", "KERAS_BACKEND"),
    # XLA's optimisations; JAX's memory, precision, checks, compilation and kind of device.
    *("XLA_*", "JAX_ENABLE_*", "JAX_DISABLE_*", "JAX_DEFAULT_*", "JAX_DEBUG_*", "JAX_PLATFORM*"),
    # TF32, cuDNN, NCCL, allocators and compilers of PyTorch; Triton's interpreter; Accelerate's precision and devices.
    *("TORCH_*", "TORCHDYNAMO_*", "TORCHINDUCTOR_*", "PYTORCH_*", "TRITON_*", "ACCELERATE_*"),
    # The exchange of gradients between GPUs and nodes.
    *("NCCL_*", "UCX_*", "HOROVOD_CYCLE_TIME", "HOROVOD_FUSION_THRESHOLD", "HOROVOD_HIERARCHICAL_*"),
    # CUDA's waiting for each kernel, loading, caches, connections and MPS; its libraries' workspace and logs; TF32.
    *("CUDA_*", "CUBLAS*", "CUDNN_*", "NVIDIA_TF32_OVERRIDE"),
    # Code that takes the place of other code: another version of a library, an allocator, a profiler.
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "GLIBC_TUNABLES", "MALLOC_*", "TCMALLOC_*"),
    # Python's debug mode and allocator, asserts, frames for perf, number of CPUs, threads side by side, and compiler.
    *("PYTHONDEVMODE", "PYTHONMALLOC*", "PYTHONTRACEMALLOC", "PYTHONOPTIMIZE", "PYTHONPERFSUPPORT"),
    *("PYTHON_CPU_COUNT", "PYTHON_GIL", "PYTHON_JIT"),
)
"""Variables, or all with a prefix ("OMP_*"), by what they may change."""

# The first two choose a test's devices, and pytest-tfperf sets them, too. The others are versions and folders.
_OF_NO_SPEED: Final = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),
    *("CUDA_HOME", "CUDA_PATH", "CUDA_VERSION", "NCCL_VERSION", "TORCH_HOME"),
)


NAME: Final = re.compile(rf"(?!({'|'.join(_OF_NO_SPEED)})$)({'|'.join(map(translate, NAMES))})")
"""Matches the name of a variable that may change the speed, apart from those that choose devices."""


def speed_variables(variables: Mapping[str, str]) -> str:
    """Write those that are set as one text without blanks: "NCCL_ALGO=Ring,OMP_NUM_THREADS=1"; "none" without any.

    Passwords are hidden.
    """
    texts = []
    for name in filter(NAME.match, sorted(variables)):
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
