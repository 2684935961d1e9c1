"""Shell variables that change how fast a GPU computes, and that no workload sets."""

from __future__ import annotations

from collections.abc import Mapping

_PREFIXES = ("TF_GPU_", "TF_CUDNN", "TF_ENABLE_", "TF_DETERMINISTIC", "NCCL_", "CUBLAS_", "CUDNN_", "CUDA_")
_OURS = {"CUDA_VISIBLE_DEVICES"}


def speed_variables(environment: Mapping[str, str]) -> str:
    """Those that are set, "NCCL_ALGO=Ring,TF_CUDNN_USE_AUTOTUNE=0"; "none", so that the first one shows as a change."""
    found = {name: value for name, value in environment.items() if name.startswith(_PREFIXES) and name not in _OURS}
    return ",".join(f"{name}={'_'.join(value.split())}" for name, value in sorted(found.items())) or "none"
