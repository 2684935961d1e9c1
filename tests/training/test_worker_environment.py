"""What a worker computes with is recorded; what only the user's shell says does not change how it computes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf
from patience import SESSION_SECONDS

from pytest_tfperf.training.environment import environment, loaded_libraries, speed_variables, tf32_in_use

RETURNED = "unsigned long {name}(void) {{ return {number}; }}"
WRITTEN = "int {name}(int *to) {{ *to = {number}; return 0; }}"


def fake_library(folder: Path, file: str, source: str) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to make a library with")
    folder.mkdir(exist_ok=True)
    (folder / "it.c").write_text(source)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / file, folder / "it.c"], check=True)
    return folder / file


def test_versions_of_loaded_cuda_libraries_are_read(tmp_path: Path) -> None:
    libraries = [
        ("libcudnn.so.9", RETURNED, "cudnnGetVersion", 90300),
        ("libcublasLt.so.12", RETURNED, "cublasLtGetVersion", 120903),
        ("libnccl.so.2", WRITTEN, "ncclGetVersion", 22105),
        ("libcudart.so.12", WRITTEN, "cudaRuntimeGetVersion", 12050),
        ("libcudnn_ops.so.9", RETURNED, "cudnnGetVersion", 80907),  # part of cuDNN, which is asked itself
    ]
    paths = [
        fake_library(tmp_path / "with a blank", file, source.format(name=function, number=number))
        for file, source, function, number in libraries
    ]
    code = (
        "import ctypes, json, sys\nfrom pytest_tfperf.training.environment import loaded_libraries\n"
        "libraries = [ctypes.CDLL(path) for path in sys.argv[1:]]\nprint(json.dumps(loaded_libraries()))"
    )
    done = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {
        "cudnn_loaded": "9.3.0",
        "cublas_loaded": "12.9.3",
        "nccl_loaded": "2.21.5",
        "cuda_loaded": "12.5",
    }


def test_no_library_is_loaded_to_read_its_version(tmp_path: Path) -> None:
    library = fake_library(tmp_path, "libcudnn.so.9", RETURNED.format(name="cudnnGetVersion", number=90300))
    maps = tmp_path / "maps"
    maps.write_text(f"7f0000000000-7f0000001000 r-xp 00000000 08:01 4711 {' ' * 20} {library}\n")
    assert loaded_libraries(maps) == {}
    assert loaded_libraries(tmp_path / "no file") == {}


@pytest.mark.parametrize(
    ("shell", "recorded"),
    [
        (
            {"NCCL_ALGO": "Ring", "TF_CUDNN_USE_AUTOTUNE": "0", "HOME": "/", "CUDA_CACHE_PATH": "/my cache"},
            "CUDA_CACHE_PATH=/my_cache,NCCL_ALGO=Ring,TF_CUDNN_USE_AUTOTUNE=0",
        ),
        ({"HOME": "/", "CUDA_VISIBLE_DEVICES": "GPU-1"}, "none"),
    ],
)
def test_variables_that_change_a_gpus_speed_are_recorded(shell: dict[str, str], recorded: str) -> None:
    assert speed_variables(shell) == recorded


@pytest.mark.parametrize(
    ("capability", "enabled", "shell", "recorded"),
    [
        ((8, 0), True, {}, "on"),
        ((9, 0), False, {}, "off"),
        ((8, 6), True, {"NVIDIA_TF32_OVERRIDE": "0"}, "off"),
        ((7, 5), True, {}, ""),
        (None, True, {}, ""),
    ],
)
def test_tf32_is_recorded_where_a_gpu_has_it(
    monkeypatch: pytest.MonkeyPatch, capability: Any, enabled: bool, shell: dict[str, str], recorded: str
) -> None:
    gpus = [SimpleNamespace()] if capability else []
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda _: gpus)
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda _: {"compute_capability": capability})
    monkeypatch.setattr(tf.config.experimental, "tensor_float_32_execution_enabled", lambda: enabled)
    assert tf32_in_use(shell) == recorded


def test_the_environment_has_versions_and_settings(cpus: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    found = environment()
    assert found["tensorflow"] == tf.__version__
    assert "NCCL_ALGO=Tree" in found["variables"]


BECOME_WORKER = """
import os
from pathlib import Path
from pytest_tfperf.training.process import become_worker
become_worker(Path(os.environ["LOG"]), dict(os.environ), [])
"""
CHAIN = """
import tensorflow as tf
tf.config.set_visible_devices([], "GPU")
weights = tf.random.normal((64, 64))
chain = tf.function(lambda x: tf.tanh(tf.exp(x @ weights) + x * x))
for _ in range(3):
    chain(weights)
"""


def said(log: Path, code: str, **variables: str) -> str:
    """What a process that runs the code writes, to its log or to standard error."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=dict(os.environ) | variables | {"LOG": str(log)},
        stderr=subprocess.PIPE,
        text=True,
        timeout=SESSION_SECONDS,
        check=True,
    )
    return done.stderr + (log.read_text() if log.exists() else "")


@pytest.mark.parametrize(("start", "clusters"), [("", True), (BECOME_WORKER, False)], ids=["plain Python", "worker"])
def test_automatic_clustering_by_xla_does_not_reach_a_worker(tmp_path: Path, start: str, clusters: bool) -> None:
    flags = {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit", "TF_CPP_MIN_LOG_LEVEL": "0"}
    assert ("Compiled cluster using XLA" in said(tmp_path / "log", start + CHAIN, **flags)) is clusters


def test_the_shell_can_not_make_a_worker_take_all_of_a_gpus_memory(tmp_path: Path) -> None:
    code = f"{BECOME_WORKER}print('it is', os.environ.get('TF_FORCE_GPU_ALLOW_GROWTH'))"
    assert said(tmp_path / "log", code, TF_FORCE_GPU_ALLOW_GROWTH="false") == "it is None\n"
