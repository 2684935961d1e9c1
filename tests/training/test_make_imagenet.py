"""The data set that `tfperf make-imagenet` writes; tests/features/datasets runs the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.training.make_data import make_data


def test_one_seed_gives_the_same_files(tmp_path: Path) -> None:
    for name in "ab":
        assert f"{tmp_path / name}: 3 images in 2 shard(s)" in make_data("imagenet", tmp_path / name, 3, 2, seed=5)
    a, b = (sorted((path.name, path.read_bytes()) for path in (tmp_path / name).iterdir()) for name in "ab")
    assert a == b
    assert [name for name, _ in a] == ["train-00000-of-00002", "train-00001-of-00002"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize(
    ("folder", "counts", "message"),
    [
        (".", (1, 1), "has files train-...: name another folder"),
        ("new", (1, 2), "at least one image for each shard"),
        ("new", (-1, -1), "at least one image for each shard"),
        ("train-file/new", (1, 1), "can't be written: "),
    ],
)
def test_what_can_not_be_written_is_refused(tmp_path: Path, folder: str, counts: tuple[int, int], message: str) -> None:
    (tmp_path / "train-file").touch()
    with pytest.raises(TfperfError, match=message):
        make_data("imagenet", tmp_path / folder, *counts, seed=1)
    assert [path.name for path in tmp_path.iterdir()] == ["train-file"]


@pytest.mark.parametrize("package", ["PIL", "tensorflow"])
def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(TfperfError, match=rf"{package}.*\. pip install"):
        make_data("imagenet", tmp_path / "new", 1, 1, seed=1)


def test_a_refusal_is_a_usage_error_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "train-file").touch()
    command = [sys.executable, "-m", "pytest_tfperf.cli", "make-imagenet", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "has files train-...: name another folder" in done.stderr
    assert "Traceback" not in done.stderr
