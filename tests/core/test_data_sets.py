"""A data folder without shards is refused before a worker starts, with the schema and the next step."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_tfperf.core.data_sets import IMAGES, TOKENS, DataSet, shards
from pytest_tfperf.errors import MeasurementError, NoData
from pytest_tfperf.workers.catalogue import data_set_of


def test_shards_are_found_in_order_and_other_files_are_ignored(tmp_path: Path) -> None:
    for name in ("train-00001-of-00002", "train-00000-of-00002", "validation-00000-of-00001", "README"):
        (tmp_path / name).touch()
    assert shards(str(tmp_path), IMAGES) == tuple(str(tmp_path / f"train-0000{i}-of-00002") for i in range(2))


def test_without_a_folder_the_error_says_how_to_get_one() -> None:
    with pytest.raises(NoData, match=r"tfperf make-imagenet DIR"):
        shards("", IMAGES)


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
        shards(str(tmp_path / folder), IMAGES)
    assert fault in str(error.value)


def test_a_folder_with_another_data_set_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "train-00000-of-00001").touch()
    with pytest.raises(NoData, match=r"(?s)no files like tokens-00000-of-01024.*input_ids"):
        shards(str(tmp_path), TOKENS)


@pytest.mark.parametrize(
    ("pipeline", "data"),
    [
        ("imagenet", IMAGES),
        ("imagenet-cached", IMAGES),
        ("imagenet-only", IMAGES),
        ("tokens", TOKENS),
        ("device", None),
        ("pkg.data:own", None),
    ],
)
def test_shipped_pipelines_know_the_data_set_that_they_read(pipeline: str, data: DataSet | None) -> None:
    assert data_set_of(pipeline) is data
