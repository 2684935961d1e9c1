"""The data set that the imagenet pipelines read: the names of its files and features, and how to get one."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_tfperf.errors import MeasurementError, NoData

IMAGE = "image/encoded"
LABEL = "image/class/label"
BOX = tuple(f"image/object/bbox/{side}" for side in ("ymin", "xmin", "ymax", "xmax"))
"""A box's four features, in the order in which TensorFlow takes its sides."""

SCHEMA = f"""\
Expected are TFRecord files of the ImageNet schema, named train-00000-of-01024 and so on, without compression.
Each record is a tf.train.Example with
  {IMAGE}  a JPEG photograph, in colour
  {LABEL}  a whole number, 1 to 1000
  {BOX[1]} (ymin, xmax, ymax)  floats from 0 to 1, any number of boxes or none"""

_SHARD = re.compile(r"train-\d+-of-\d+")
_GET_ONE = (
    "`tfperf make-imagenet DIR` writes a small set of real photographs; name it with --tfperf-data-dir=DIR "
    "(or TFPERF_DATA_DIR, or tfperf_data_dir in the ini file)."
)


def shards(data_dir: str) -> tuple[str, ...]:
    """The paths of the data set's training shards, sorted; what is in them is checked when a worker parses it.

    Args:
        data_dir: folder of the shards; "" where the user named none.

    Raises:
        NoData: no folder was named.
        MeasurementError: there is no such folder, or it holds no shards.
    """
    if not data_dir:
        raise NoData(f"this input pipeline reads real images, and no data set was named. {_GET_ONE}\n{SCHEMA}")
    folder = Path(data_dir)
    if not folder.is_dir():
        fault = "is not a folder" if folder.exists() else "does not exist"
        raise MeasurementError(f"data folder {data_dir!r} {fault}.\n{_GET_ONE}\n{SCHEMA}")
    names = sorted(path.name for path in folder.iterdir())
    found = tuple(str(folder / name) for name in names if _SHARD.fullmatch(name))
    if not found:
        raise MeasurementError(
            f"data folder {data_dir!r} has no files like train-00000-of-01024; "
            f"it contains {', '.join(names[:3]) or 'nothing'}.\n{SCHEMA}\n{_GET_ONE}"
        )
    return found
