"""Variables of the user's shell that change a GPU's speed are known, and one that takes its memory stays outside."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_tfperf.training.variables import speed_variables
from pytest_tfperf.training.worker import _settings

WORKER = """
import os, sys
from pathlib import Path
from pytest_tfperf.training.process import become_worker
become_worker(Path(sys.argv[1]), dict(os.environ), [])
print("it is", os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH"))
"""


def test_what_is_set_is_told_in_one_word() -> None:
    shell = {"NCCL_ALGO": "Ring", "TF_CUDNN_USE_AUTOTUNE": "0", "HOME": "/", "CUDA_CACHE_PATH": "/my cache"}
    assert speed_variables(shell) == "CUDA_CACHE_PATH=/my_cache,NCCL_ALGO=Ring,TF_CUDNN_USE_AUTOTUNE=0"


def test_a_shell_that_sets_none_says_so_that_the_first_one_shows_as_a_change() -> None:
    assert speed_variables({"HOME": "/"}) == "none"


def test_which_gpus_a_test_took_is_none_of_them() -> None:
    assert speed_variables({"CUDA_VISIBLE_DEVICES": "GPU-1"}) == "none"


def test_a_workers_environment_tells_them(cpus: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    assert "NCCL_ALGO=Tree" in _settings()["variables"]


def test_a_shell_cannot_have_a_worker_take_all_of_a_gpus_memory(tmp_path: Path) -> None:
    log = tmp_path / "log"
    environment = dict(os.environ) | {"TF_FORCE_GPU_ALLOW_GROWTH": "false"}
    subprocess.run([sys.executable, "-c", WORKER, log], env=environment, check=True)
    assert log.read_text() == "it is None\n"
