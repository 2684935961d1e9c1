"""The data set that `tfperf make-imagenet` writes; tests/training reads it with TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import SESSION_SECONDS


def make(*arguments: object, python_path: str = "") -> subprocess.CompletedProcess[str]:
    """`tfperf make-imagenet` in a process of its own."""
    code = "import sys; from pytest_tfperf.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "make-imagenet", *map(str, arguments)]
    environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join([python_path, os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=SESSION_SECONDS, check=False
    )


def test_the_command_says_what_it_wrote_and_one_seed_gives_the_same_files(tmp_path: Path) -> None:
    for name in "ab":
        done = make(tmp_path / name, "--images", 3, "--shards", 2, "--seed", 5)
        assert done.returncode == 0, done.stderr
        assert f"{tmp_path / name}: 3 images in 2 shard(s)" in done.stdout
        assert f"pytest perf_tests --tfperf-data-dir={tmp_path / name}" in done.stdout
    a, b = (sorted((path.name, path.read_bytes()) for path in (tmp_path / name).iterdir()) for name in "ab")
    assert a == b
    assert [name for name, _ in a] == ["train-00000-of-00002", "train-00001-of-00002"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize(
    ("folder", "counts", "message"),
    [
        (".", (1, 1), "not an empty folder: name a new one"),
        ("new", (1, 2), "at least one image for each shard"),
        ("file/new", (1, 1), "can't be written: "),
    ],
)
def test_what_can_not_be_written_is_refused(tmp_path: Path, folder: str, counts: tuple[int, int], message: str) -> None:
    (tmp_path / "file").touch()
    done = make(tmp_path / folder, "--images", counts[0], "--shards", counts[1])
    assert done.returncode == 4
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("raise ImportError('no tensorflow')")
    done = make(tmp_path / "new", "--images", 1, "--shards", 1, python_path=str(tmp_path))
    assert done.returncode == 4, done.stderr
    assert "no tensorflow. pip install" in done.stderr
