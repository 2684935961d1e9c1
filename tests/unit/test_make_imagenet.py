"""The data set that `tfperf make-imagenet` writes; tests/training reads it with TensorFlow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from patience import SESSION_SECONDS


def make(*arguments: object, preamble: str = "") -> subprocess.CompletedProcess[str]:
    """`tfperf make-imagenet` in a process of its own."""
    code = f"{preamble}\nimport sys; from pytest_tfperf.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "make-imagenet", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SESSION_SECONDS, check=False)


def test_shards_are_named_as_imagenets(photographs: Path) -> None:
    assert sorted(path.name for path in photographs.iterdir()) == [f"train-{i:05d}-of-00003" for i in range(3)]


def test_the_command_says_what_it_wrote_and_one_seed_gives_the_same_files(tmp_path: Path) -> None:
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        done = make(tmp_path / name, "--images", 3, "--shards", 2, "--seed", seed)
        assert done.returncode == 0, done.stderr
        assert f"{tmp_path / name}: 3 images in 2 shard(s)" in done.stdout
        assert f"pytest perf_tests --tfperf-data-dir={tmp_path / name}" in done.stdout
    a, b, c = (sorted((path.name, path.read_bytes()) for path in (tmp_path / name).iterdir()) for name in "abc")
    assert a == b != c


@pytest.mark.parametrize(
    ("folder", "counts", "message"),
    [
        (".", (1, 1), "not an empty folder: name a new one"),
        ("new", (0, 0), "at least one image for each shard"),
        ("new", (1, 2), "at least one image for each shard"),
        ("new", (-1, -1), "at least one image for each shard"),
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


@pytest.mark.parametrize(
    ("package", "message"),
    [("PIL", "or in a checkout pip install -e '.[data]'"), ("tensorflow", "TensorFlow writes the records, and ")],
)
def test_a_missing_package_is_named(tmp_path: Path, package: str, message: str) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / f"{package}.py").write_text("raise ImportError('broken')")
    preamble = (
        f"import os; os.environ['PYTHONPATH'] = {str(tmp_path / 'broken')!r} + ':' + os.environ.get('PYTHONPATH', '')"
    )
    done = make(tmp_path / "new", "--images", 1, "--shards", 1, preamble=preamble)
    assert (done.returncode, message in done.stderr) == (4, True), done.stderr
