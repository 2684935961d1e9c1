"""The data sets that pipelines read: their files' names, their features, and the commands that make them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pytest_tfperf.errors import MeasurementError, NoData

IMAGE = "image/encoded"
LABEL = "image/class/label"
BOX = tuple(f"image/object/bbox/{side}" for side in ("ymin", "xmin", "ymax", "xmax"))
"""A box's four features, in the order in which TensorFlow takes its sides."""

TEXT_LABEL = "label_ids"


@dataclass(frozen=True, slots=True)
class DataSet:
    """A kind of TFRecord files, named PREFIX-00000-of-01024 and so on.

    `what` are the examples in words, `command` writes a small set, and `schema` has a line for each feature.
    """

    what: str
    prefix: str
    command: str
    schema: str

    @property
    def expected(self) -> list[str]:
        """The expected files, in words."""
        return [
            f"Expected are TFRecord files named {self.prefix}-00000-of-01024 and so on, without compression.",
            "Each record is a tf.train.Example with",
            *self.schema.split("\n"),
        ]

    @property
    def how_to_get_one(self) -> str:
        """The next step: the command that writes a small set, and the option that names its folder."""
        return (
            f"`{self.command} DIR` writes a small set; name it with --tfperf-data-dir=DIR "
            "(or TFPERF_DATA_DIR, or tfperf_data_dir in the ini file)."
        )


IMAGES = DataSet(
    what="real images",
    prefix="train",
    command="tfperf make-imagenet",
    schema=f"""\
  {IMAGE}  a JPEG photograph, in colour
  {LABEL}  a whole number, 1 to 1000
  {BOX[1]} (ymin, xmax, ymax)  floats from 0 to 1, any number of boxes or none""",
)

TOKENS = DataSet(
    what="token ids",
    prefix="tokens",
    command="tfperf make-tokens",
    schema=f"""\
  a feature for each of the model's inputs, by its name (input_ids, input_mask, segment_ids), whole numbers
  {TEXT_LABEL}  a whole number, the class""",
)


def shards(data_dir: str, of: DataSet) -> tuple[str, ...]:
    """Return the sorted paths of a data set's shards; a worker checks their content when it parses it.

    `data_dir` is "" where the user named no folder.

    Raises:
        NoData: no folder was named, or it only holds another data set.
        MeasurementError: the folder does not exist, or holds no shards.
    """
    if not data_dir:
        raise NoData(
            f"this input pipeline reads {of.what}, and no data set was named", *of.expected, next_step=of.how_to_get_one
        )
    folder = Path(data_dir)
    if not folder.is_dir():
        fault = "is not a folder" if folder.exists() else "does not exist"
        raise MeasurementError(f"data folder {data_dir!r} {fault}", of.how_to_get_one, *of.expected)
    names = sorted(path.name for path in folder.iterdir())
    if shard_names := _shards_among(names, of):
        return tuple(str(folder / name) for name in shard_names)
    fault = (
        f"data folder {data_dir!r} has no files like {of.prefix}-00000-of-01024; "
        f"it contains {', '.join(names[:3]) or 'nothing'}"
    )
    if any(_shards_among(names, data_set) for data_set in (IMAGES, TOKENS)):
        raise NoData(fault, *of.expected, of.how_to_get_one)
    raise MeasurementError(fault, *of.expected, of.how_to_get_one)


def _shards_among(names: list[str], of: DataSet) -> list[str]:
    return [name for name in names if re.fullmatch(rf"{of.prefix}-\d+-of-\d+", name)]
