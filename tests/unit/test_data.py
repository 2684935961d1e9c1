"""A data folder is refused before a worker starts, with the schema and the next step."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_tfperf.core.catalogue import check_data
from pytest_tfperf.core.image_data import Data
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError, NoData
from pytest_tfperf.training.tfrecord import Value, example, framed

JPEG = b"\xff\xd8\xff\xe0 and so on"


def record(**changed: Value | None) -> bytes:
    whole: dict[str, Value | None] = {"image/encoded": [JPEG], "image/class/label": [7], "image/class/text": [b"cat"]}
    return framed(example({k: v for k, v in (whole | changed).items() if v is not None}))


def folder_of(path: Path, shard: bytes, name: str = "train-00000-of-00001") -> Data:
    (path / name).write_bytes(shard)
    return Data(folder=str(path))


def test_shards_are_found_in_their_order(tmp_path: Path) -> None:
    for name in ("train-00001-of-00002", "train-00000-of-00002", "validation-00000-of-00001", "README"):
        folder_of(tmp_path, record(), name)
    names = ["train-00000-of-00002", "train-00001-of-00002"]
    assert Data(folder=str(tmp_path)).shards() == tuple(str(tmp_path / name) for name in names)


def test_a_folder_that_nobody_named_is_no_data() -> None:
    with pytest.raises(NoData, match=r"tfperf make-imagenet DIR"):
        Data().shards()


FAULTS: dict[str, tuple[Callable[[Path], Data], str]] = {
    "missing": (lambda path: Data(folder=str(path / "nowhere")), "nowhere' does not exist"),
    "a file": (
        lambda path: Data(folder=str(Path(folder_of(path, b"").folder) / "train-00000-of-00001")),
        "is no folder",
    ),
    "nothing there": (lambda path: Data(folder=str(path)), "has no files like train-00000-of-01024; there is nothing"),
    "other files": (lambda path: folder_of(path, b"", "cat.jpg"), "there is cat.jpg"),
    "empty shards": (lambda path: folder_of(path, b""), "all 1 shards"),
    "no records": (lambda path: folder_of(path, b"\x89PNG" * 9), "does not begin with a length and its checksum"),
    "compressed": (lambda path: folder_of(path, gzip.compress(record())), "does not begin with a length"),
    "cut off": (lambda path: folder_of(path, record()[:-20]), "record 0 is cut off"),
    "no Example": (lambda path: folder_of(path, framed(b"\xff" * 30)), "no tf.train.Example"),
    "no image": (lambda path: folder_of(path, record(**{"image/encoded": None})), "there is no image/encoded; its"),
    "a PNG": (lambda path: folder_of(path, record(**{"image/encoded": [b"\x89PNG"]})), "image/encoded is no JPEG"),
    "a text for a label": (
        lambda path: folder_of(path, record(**{"image/class/label": [b"cat"]})),
        "there is no image/class/label that is one whole number; its first record has image/class/label, image",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_folder_that_can_not_be_read_says_what_is_wrong(tmp_path: Path, fault: str) -> None:
    make, said = FAULTS[fault]
    with pytest.raises(MeasurementError) as error:
        make(tmp_path).shards()
    assert said in str(error.value)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "empty shards"])
def test_every_fault_is_told_with_the_schema_that_is_expected(tmp_path: Path, fault: str) -> None:
    with pytest.raises(MeasurementError, match=r"image/class/label  a whole number"):
        FAULTS[fault][0](tmp_path).shards()


@pytest.mark.parametrize("pipeline", ["device", "python", "mypkg.data:own"])
def test_pipelines_that_read_no_photographs_need_no_folder(pipeline: str) -> None:
    check_data(Workload(model="trivial", batch_size=1, input_pipeline=pipeline), Data())


@pytest.mark.parametrize("pipeline", ["imagenet", "imagenet-distortions", "imagenet-cached", "imagenet-only"])
def test_pipelines_of_photographs_need_one(pipeline: str) -> None:
    with pytest.raises(NoData):
        check_data(Workload(model="trivial", batch_size=1, input_pipeline=pipeline), Data())
