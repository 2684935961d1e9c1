"""The data set that `tfperf make-imagenet` writes."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pytest_tfperf.cli import main
from pytest_tfperf.core.image_data import Data
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.training import make_imagenet as module
from pytest_tfperf.training.make_imagenet import make_imagenet
from pytest_tfperf.training.tfrecord import features, records


def images(folder: Path) -> list[dict[str, list[bytes] | list[float] | list[int]]]:
    found = []
    for shard in Data(folder=str(folder)).shards():
        with Path(shard).open("rb") as file:
            found += [features(payload) for payload in records(file)]
    return found


def test_the_shards_are_named_as_imagenets(photographs: Path) -> None:
    assert sorted(path.name for path in photographs.iterdir()) == [f"train-{i:05d}-of-00003" for i in range(3)]


def test_all_images_are_there(photographs: Path) -> None:
    assert len(images(photographs)) == 24


def test_labels_leave_0_to_the_background(photographs: Path) -> None:
    labels = [label for image in images(photographs) for label in image["image/class/label"]]
    assert all(1 <= int(label) <= 1000 for label in labels)
    assert len(set(labels)) > 12


def test_boxes_lie_in_the_image(photographs: Path) -> None:
    for image in images(photographs):
        (ymin,), (ymax,), (xmin,), (xmax,) = (
            image[f"image/object/bbox/{side}"] for side in ("ymin", "ymax", "xmin", "xmax")
        )
        assert 0 <= ymin < ymax <= 1
        assert 0 <= xmin < xmax <= 1


def test_images_are_of_imagenets_size_in_bytes(photographs: Path) -> None:
    sizes = [len(image["image/encoded"][0]) for image in images(photographs)]
    assert 90_000 < sum(sizes) / len(sizes) < 120_000


@given(st.integers(500, 2000), st.integers(375, 2000), st.randoms(use_true_random=False))
def test_no_part_is_enlarged_or_leaves_the_photograph(width: int, height: int, rng: random.Random) -> None:
    left, top, right, bottom = module._part((width, height), (500, 375), rng)
    assert 0 <= left <= right - 500 + 1e-6 <= width - 500 + 1e-6
    assert 0 <= top <= bottom - 375 + 1e-6 <= height - 375 + 1e-6


def test_every_photograph_holds_one_of_the_sizes() -> None:
    assert all(any(module._holds(p.size, size) for size in module._SIZES) for _, p in module._photographs())


def test_no_jpeg_is_of_a_quality_that_only_adds_bytes(photographs: Path) -> None:
    best = Image.open(io.BytesIO(module._jpeg(Image.new("RGB", (8, 8)), 97))).quantization
    for image in images(photographs):
        jpeg = image["image/encoded"][0]
        assert isinstance(jpeg, bytes)
        steps = Image.open(io.BytesIO(jpeg)).quantization
        assert all(ours >= finest for table in best for ours, finest in zip(steps[table], best[table], strict=True))


def test_one_seed_gives_the_same_files(tmp_path: Path) -> None:
    for name in "ab":
        make_imagenet(tmp_path / name, images=3, shards=2, seed=5)
    files = [sorted((path.name, path.read_bytes()) for path in (tmp_path / name).iterdir()) for name in "ab"]
    assert files[0] == files[1]


def test_another_seed_gives_other_images(tmp_path: Path) -> None:
    for seed in (1, 2):
        make_imagenet(tmp_path / str(seed), images=1, shards=1, seed=seed)
    assert len({path.read_bytes() for path in tmp_path.glob("*/train*")}) == 2


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TfperfError, match="not an empty folder: name a new one"):
        make_imagenet(tmp_path, images=1, shards=1)


@pytest.mark.parametrize(("count", "shards"), [(0, 0), (1, 2), (1, 0), (-1, -1)])
def test_counts_that_can_not_be_are_refused(tmp_path: Path, count: int, shards: int) -> None:
    with pytest.raises(TfperfError, match="at least one image for each shard"):
        make_imagenet(tmp_path / "new", images=count, shards=shards)


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "framed", fail)
    with pytest.raises(TfperfError, match="can't be written: No space left on device"):
        make_imagenet(tmp_path / "new", images=1, shards=1)
    assert list(tmp_path.iterdir()) == []


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    named = r"pip install 'scikit-image>=\S+' 'pillow>=\S+', or in a checkout pip install -e '\.\[data\]'"
    with pytest.raises(TfperfError, match=named):
        make_imagenet(tmp_path / "new", images=1, shards=1)


def test_the_command_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["make-imagenet", str(tmp_path / "set"), "--images", "2", "--shards", "1"]) == 0
    said = capsys.readouterr().out
    assert f"{tmp_path / 'set'}: 2 images in 1 shard(s)" in said
    assert f"pytest perf_tests --tfperf-data-dir={tmp_path / 'set'}" in said


def test_the_command_refuses_with_the_status_for_wrong_arguments(tmp_path: Path) -> None:
    assert main(["make-imagenet", str(tmp_path / "set"), "--images", "0"]) == 4
