"""What a worker computes with is recorded; what only the user's shell says does not change how it computes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from pytest_tfperf.training.process import PINNED, find_modules_in
from pytest_tfperf.training.worker import environment, loaded_libraries, tf32_in_use
from tests.helpers.patience import SESSION_SECONDS

pytestmark = pytest.mark.slow

RETURNED = "unsigned long {name}(void) {{ return {number}; }}"
WRITTEN = "int {name}(int *to) {{ *to = {number}; return 0; }}"


def fake_library(folder: Path, file: str, source: str) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to make a library with")
    folder.mkdir(exist_ok=True)
    (folder / "it.c").write_text(source)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / file, folder / "it.c"], check=True)
    return folder / file


def printed(code: str, *arguments: object, **variables: str) -> Any:
    """The JSON that a fresh process prints."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = dict(os.environ) | variables
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SESSION_SECONDS, check=True)
    return json.loads(done.stdout)


def test_versions_of_loaded_cuda_libraries_are_read(tmp_path: Path) -> None:
    libraries = [
        ("libcudnn.so.9", RETURNED, "cudnnGetVersion", 90300),
        ("libcublasLt.so.12", RETURNED, "cublasLtGetVersion", 120903),
        ("libnccl.so.2", WRITTEN, "ncclGetVersion", 22105),
        ("libcudnn_ops.so.9", RETURNED, "cudnnGetVersion", 80907),  # part of cuDNN, which is asked itself
    ]
    paths = [
        fake_library(tmp_path / "with a blank", file, source.format(name=function, number=number))
        for file, source, function, number in libraries
    ]
    code = (
        "import ctypes, json, sys\nfrom pytest_tfperf.training.worker import loaded_libraries\n"
        "libraries = [ctypes.CDLL(path) for path in sys.argv[1:]]\nprint(json.dumps(loaded_libraries()))"
    )
    assert printed(code, *paths) == {"cudnn_loaded": "90300", "cublas_loaded": "120903", "nccl_loaded": "22105"}


def test_the_import_of_tensorflow_does_not_import_jax_which_a_model_may(tmp_path: Path) -> None:
    for name, text in (
        ("jax", "jit = len"),
        ("keras", "__version__ = '3'"),
        ("tensorflow", "__version__ = '2'\ntry:\n    from jax import jit\nexcept ImportError:\n    jit = None"),
    ):
        (tmp_path / f"{name}.py").write_text(text)
    code = (
        "import json; from pytest_tfperf.training.process import import_tensorflow; found = import_tensorflow()\n"
        "import jax, tensorflow; print(json.dumps([found, tensorflow.jit is None, jax.jit is len]))"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    assert printed(code, PYTHONPATH=path) == [{"imported": {"tensorflow": "2", "keras": "3"}}, True, True]


def test_no_library_is_loaded_to_read_its_version(tmp_path: Path) -> None:
    library = fake_library(tmp_path, "libcudnn.so.9", RETURNED.format(name="cudnnGetVersion", number=90300))
    maps = tmp_path / "maps"
    maps.write_text(f"7f0000000000-7f0000001000 r-xp 00000000 08:01 4711 {' ' * 20} {library}\n")
    assert loaded_libraries(maps) == {}


@pytest.mark.parametrize(
    ("capability", "enabled", "shell", "recorded"),
    [
        ((8, 0), True, {}, "on"),
        ((9, 0), False, {}, "off"),
        ((8, 6), True, {"NVIDIA_TF32_OVERRIDE": "0"}, "off"),
        ((7, 5), True, {}, ""),
    ],
)
def test_tf32_is_recorded_where_a_gpu_has_it(
    monkeypatch: pytest.MonkeyPatch, capability: Any, enabled: bool, shell: dict[str, str], recorded: str
) -> None:
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda _: [SimpleNamespace()])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda _: {"compute_capability": capability})
    monkeypatch.setattr(tf.config.experimental, "tensor_float_32_execution_enabled", lambda: enabled)
    assert tf32_in_use(shell) == recorded


def test_the_environment_has_versions_and_settings(cpus: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    for name, value in PINNED.items():
        monkeypatch.setenv(name, value)
    found = environment()
    assert found["tensorflow"] == tf.__version__
    assert "NCCL_ALGO=Tree" in found["environment_variables"]
    assert "TF_XLA_FLAGS" not in found["environment_variables"]  # every worker has ours
    assert "tf32" not in found  # there is no GPU


def test_the_shell_can_not_make_a_worker_use_xla_or_take_all_of_a_gpus_memory(tmp_path: Path) -> None:
    code = """
import json, os, sys
from pathlib import Path
from pytest_tfperf.training.process import become_worker
shown = os.dup(1)
become_worker(Path(sys.argv[1]), dict(os.environ), {})
os.write(shown, json.dumps(dict(os.environ)).encode())
"""
    flags = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"
    found = printed(code, tmp_path / "log", TF_XLA_FLAGS=flags, TF_FORCE_GPU_ALLOW_GROWTH="false")
    assert found["TF_XLA_FLAGS"] == "--tf_xla_auto_jit=-1"
    assert "TF_FORCE_GPU_ALLOW_GROWTH" not in found


@pytest.mark.parametrize(
    "among",
    [
        ("tests", "project", "exported", "site-packages"),
        ("project", "exported"),
        ("project", "site-packages"),
        ("exported",),
    ],
    ids=str,
)
def test_of_several_modules_of_a_name_a_worker_takes_pytests_own(
    among: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {name: tmp_path / name for name in ("exported", "project", "site-packages", "tests")}
    for name, folder in folders.items():
        folder.mkdir()
        if name in among:
            (folder / "mine.py").touch()
    monkeypatch.setattr(sys, "path", [*map(str, list(folders.values())[:3])])
    find_modules_in([str(folders["tests"]), str(folders["project"])])
    found = PathFinder.find_spec("mine")
    assert found is not None
    assert found.origin == str(folders[among[0]] / "mine.py")


def test_pythons_own_library_comes_before_a_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    find_modules_in([str(tmp_path)])
    found = PathFinder.find_spec("json")
    assert found is not None
    assert found.origin == json.__file__


def test_a_python_with_tensorflow_alone_can_run_workers() -> None:
    # What pytest's side needs, and a reference environment or the Python of --tfperf-against need not have.
    others = ["jinja2", "pandas", "psutil", "pynvml", "pytest", "pytest_benchmark"]
    program = f"import sys; sys.modules.update(dict.fromkeys({others})); import pytest_tfperf.training.worker"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
