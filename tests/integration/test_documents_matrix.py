"""Each of the documents' 291 figures has a test in perf_tests; what can't be measured here says why in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import SESSION_SECONDS

ROOT = Path(__file__).parents[2]
DOCUMENTS = [f"perf_tests/test_{name}.py" for name in ("azure", "multigpu", "lambda")]


@pytest.fixture
def tried(tmp_path: Path) -> Callable[..., tuple[int, list[str]]]:
    """pytest on this repository's perf_tests, on a machine whose GPUs are hidden; exit status and lines."""

    def run(*arguments: str) -> tuple[int, list[str]]:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-o", "addopts=", "-p", "no:cacheprovider", *arguments],
            cwd=ROOT,
            env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "TFPERF_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=SESSION_SECONDS,
            check=False,
        )
        return done.returncode, done.stdout.splitlines()

    return run


def test_every_published_figure_has_a_test(tried: Callable[..., tuple[int, list[str]]]) -> None:
    status, lines = tried("--tfperf-coverage", *DOCUMENTS)
    assert [line for line in lines if "have a test" in line or line.startswith("no test")] == [
        "azure-k80-tensorflow-benchmark.md: 7 of 7 figures have a test, 7 of them not built yet (horovod)",
        "tensorpack-multigpu-dgx1.md: 32 of 32 figures have a test",
        "lambda-cpu-benchmark.md: 252 of 252 figures have a test",
    ]
    assert status == 0


def test_a_figure_without_a_test_is_listed(tried: Callable[..., tuple[int, list[str]]]) -> None:
    status, lines = tried("--tfperf-coverage", *DOCUMENTS[1:])
    listed = [line for line in lines if line.startswith("no test: ")]
    assert (status, [line.partition(" of ")[0] for line in listed]) == (
        1,
        ["no test: resnet50-b64-horovod-device on 1x1, 1x2, 2x1, 2x2 (7 figures"],
    )


def test_what_is_missing_is_said_once_for_each_reason(tried: Callable[..., tuple[int, list[str]]]) -> None:
    status, lines = tried(*DOCUMENTS)
    skips = [line.partition(",")[0] for line in lines if " skipped: " in line]
    assert skips == [
        "71 skipped: needs 4 equal GPUs",
        "9 skipped: needs 1 GPU",
        "9 skipped: needs 2 equal GPUs",
        "8 skipped: needs 8 equal GPUs",
        "2 skipped: needs 2 nodes",
    ]
    assert status == 0


def test_workers_of_xdist_would_each_read_their_own_tests(tried: Callable[..., tuple[int, list[str]]]) -> None:
    status, _ = tried("--tfperf-coverage", "-n2", *DOCUMENTS)
    assert status == 4


def test_photographs_have_tests_that_need_no_gpu(tried: Callable[..., tuple[int, list[str]]]) -> None:
    reading = ["perf_tests/test_cpu.py", "-m", "cpu and not slow", "-k", "imagenet"]
    _, lines = tried(*reading)
    assert [line.partition(":")[0] for line in lines if " skipped: " in line] == ["2 skipped"]
    assert any("tfperf make-imagenet DIR" in line for line in lines)


def test_who_only_collects_misses_no_measurement(tried: Callable[..., tuple[int, list[str]]]) -> None:
    status, _ = tried("--collect-only", "-q", "--tfperf-require-baseline", *DOCUMENTS)
    assert status == 0
