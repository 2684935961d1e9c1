"""A data folder without shards is refused before a worker starts, with the schema and the next step."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_tfperf.core.catalogue import reads_data
from pytest_tfperf.core.image_data import shards
from pytest_tfperf.errors import MeasurementError, NoData


def test_shards_are_found_in_order_and_other_files_are_ignored(tmp_path: Path) -> None:
    for name in ("train-00001-of-00002", "train-00000-of-00002", "validation-00000-of-00001", "README"):
        (tmp_path / name).touch()
    assert shards(str(tmp_path)) == tuple(str(tmp_path / f"train-0000{i}-of-00002") for i in range(2))


def test_without_a_folder_the_error_says_how_to_get_one() -> None:
    with pytest.raises(NoData, match=r"tfperf make-imagenet DIR"):
        shards("")


@pytest.mark.parametrize(
    ("folder", "fault"),
    [
        ("nowhere", "nowhere' does not exist"),
        ("empty/../cat.jpg", "is not a folder"),
        ("empty", "has no files like train-00000-of-01024; it contains nothing"),
        (".", "it contains cat.jpg, empty"),
    ],
)
def test_a_folder_without_shards_is_refused_with_the_schema(tmp_path: Path, folder: str, fault: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "cat.jpg").touch()
    with pytest.raises(MeasurementError, match=r"image/class/label  a whole number") as error:
        shards(str(tmp_path / folder))
    assert fault in str(error.value)


@pytest.mark.parametrize(
    ("pipeline", "reads"),
    [
        ("imagenet", True),
        ("imagenet-cached", True),
        ("imagenet-only", True),
        ("device", False),
        ("pkg.data:own", False),
    ],
)
def test_only_the_imagenet_pipelines_read_the_data_set(pipeline: str, reads: bool) -> None:
    assert reads_data(pipeline) is reads
