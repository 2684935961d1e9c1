"""The data set that pipelines with real images read: where it lies, what it has to look like, and how to get one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pytest_tfperf.errors import MeasurementError, NoData
from pytest_tfperf.training.tfrecord import NotTFRecords, features, records

IMAGE = "image/encoded"
LABEL = "image/class/label"
TEXT = "image/class/text"
BOX = tuple(f"image/object/bbox/{side}" for side in ("ymin", "xmin", "ymax", "xmax"))
"""The features that are read, in the order in which TensorFlow takes a box's sides."""

_SHARD = re.compile(r"train-\d+-of-\d+")
_JPEG = b"\xff\xd8\xff"
_SCHEMA = f"""\
Expected are TFRecords of the ImageNet schema: files train-00000-of-01024 and so on, not compressed; each record is a
tf.train.Example with
  {IMAGE}  a JPEG photograph, in colour
  {LABEL}  a whole number, 1 to 1000
  {BOX[1]} (ymin, xmax, ymax)  floats from 0 to 1, any number of boxes or none"""
_GET_ONE = (
    "A small set of real photographs: tfperf make-imagenet DIR. Then pytest perf_tests --tfperf-data-dir=DIR "
    "(or TFPERF_DATA_DIR, or tfperf_data_dir in the ini file)."
)


class OnCorrupt(StrEnum):
    """What a record or JPEG that can't be read does to a run."""

    STOP = "stop"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """What the user said about data.

    Args:
        folder: holds the shards; "" where none was named.
        on_corrupt: whether a corrupt record ends the run.
    """

    folder: str = ""
    on_corrupt: OnCorrupt = OnCorrupt.STOP

    def shards(self) -> tuple[str, ...]:
        """The shards' paths, sorted.

        Raises:
            NoData: no folder was named.
            MeasurementError: no such folder, no shards in it, or the first record isn't of the schema.
        """
        if not self.folder:
            raise NoData(f"this input pipeline reads real images, and no data set was named.\n{_GET_ONE}\n{_SCHEMA}")
        folder = Path(self.folder)
        if not folder.is_dir():
            there = "is no folder" if folder.exists() else "does not exist"
            raise MeasurementError(f"data folder {self.folder!r} {there}.\n{_GET_ONE}\n{_SCHEMA}")
        found = sorted(path for path in folder.iterdir() if _SHARD.fullmatch(path.name))
        if not found:
            seen = ", ".join(sorted(path.name for path in folder.iterdir())[:3]) or "nothing"
            raise MeasurementError(
                f"data folder {self.folder!r} has no files like train-00000-of-01024; there is {seen}.\n"
                f"{_SCHEMA}\n{_GET_ONE}"
            )
        _require_schema(found)
        return tuple(map(str, found))


def _require_schema(shards: list[Path]) -> None:
    path = next((path for path in shards if path.stat().st_size), None)
    if path is None:
        raise MeasurementError(f"all {len(shards)} shards in {str(shards[0].parent)!r} are empty.\n{_GET_ONE}")
    try:
        with path.open("rb") as file:
            found = features(next(records(file)))
    except (OSError, NotTFRecords) as error:
        raise MeasurementError(f"{path}: {error}.\n{_SCHEMA}\n{_GET_ONE}") from None
    if wrong := _difference(found):
        there = ", ".join(sorted(found)) or "no features at all"
        raise MeasurementError(f"{path}: {wrong}; its first record has {there}.\n{_SCHEMA}\n{_GET_ONE}")


def _difference(found: dict[str, list[bytes] | list[float] | list[int]]) -> str:
    image, label = found.get(IMAGE, []), found.get(LABEL, [])
    if len(image) != 1 or not isinstance(image[0], bytes):
        return f"there is no {IMAGE}"
    if not image[0].startswith(_JPEG):
        return f"{IMAGE} is no JPEG"
    if len(label) != 1 or not isinstance(label[0], int):
        return f"there is no {LABEL} that is one whole number"
    return ""
