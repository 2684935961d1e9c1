"""The records of a data set, each with its place, so that a corrupt one can be named and left out."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.images import tfrecord
from pytest_tfperf.images.data import IMAGE, OnCorrupt
from pytest_tfperf.training.inputs import InputSpec
from pytest_tfperf.training.skipped import Skipped

_SHARDS_AT_ONCE = 10  # as tf_cnn_benchmarks reads them
_IN_A_ROW = 16
_BUFFER_BYTES = 1 << 20
_SEARCH_SECONDS = 120.0

Work = Callable[[tf.Tensor, tf.Tensor], Any]
"""Place in the order of reading (int64) and a serialised Example to (image, label)."""


def shuffled(spec: InputSpec) -> list[str]:
    """The shards in the order in which they are read.

    Raises:
        NoData, MeasurementError: see `Data.shards`.
    """
    shards = list(spec.data.shards())
    random.Random(spec.seed).shuffle(shards)
    return shards


class Places:
    """Says where a record lies, and tells `skipped` of those that are left out; called by tf.data's threads.

    Args:
        shards: paths, in the order in which they are read.
        skipped: is told.
    """

    def __init__(self, shards: Sequence[str], skipped: Skipped) -> None:
        self._shards = shards
        self._skipped = skipped
        self._lengths: dict[int, int] = {}

    def corrupt(self, shard: Any, number: Any) -> Any:
        """Tell of one record; False, for a filter that lets nothing through."""
        place = f"{Path(self._shards[shard]).name} record {number}"
        self._skipped.add(place)
        return np.bool_(False)

    def ended(self, shard: Any, read: Any) -> Any:
        """Tell of the record after which a shard could not be read on, if it has more than `read` of them."""
        if self._length(int(shard)) > read:
            name = Path(self._shards[shard]).name
            self._skipped.add(f"{name} record {read}", f"{name} can't be read from record {read} on")
        return np.bool_(False)

    def _length(self, shard: int) -> int:
        """Records in a shard, one that is cut off included; counted once."""
        if shard not in self._lengths:
            number = 0
            with Path(self._shards[shard]).open("rb") as file:
                try:
                    for _ in tfrecord.records(file):
                        number += 1
                except tfrecord.NotTFRecords:
                    number += 1
            self._lengths[shard] = number
        return self._lengths[shard]


def payloads(shards: Sequence[str]) -> tf.data.Dataset:
    """The records, once; several shards are read in turns. A corrupt one is an error."""
    paths = tf.constant(shards)
    return _in_turns(shards, lambda shard: tf.data.TFRecordDataset(paths[shard], buffer_size=_BUFFER_BYTES))


def located(shards: Sequence[str], places: Places) -> tf.data.Dataset:
    """The same, as (shard's index, record's number, payload); a shard ends before its first corrupt record.

    `places` is told of it.
    """
    paths = tf.constant(shards)

    def one(shard: tf.Tensor) -> tf.data.Dataset:
        read = tf.data.TFRecordDataset(paths[shard], buffer_size=_BUFFER_BYTES).ignore_errors()
        shard_again = tf.data.Dataset.from_tensors(shard).repeat()
        return _checked_at_its_end(tf.data.Dataset.zip((shard_again, tf.data.Dataset.counter(), read)), shard, places)

    return _in_turns(shards, one)


def _in_turns(shards: Sequence[str], read: Callable[[tf.Tensor], tf.data.Dataset]) -> tf.data.Dataset:
    # Two threads read ahead of many cores; more of them pass more time with handing over than with reading.
    numbers = tf.data.Dataset.range(len(shards))
    return numbers.interleave(
        read, cycle_length=min(_SHARDS_AT_ONCE, len(shards)), block_length=_IN_A_ROW, num_parallel_calls=2
    )


def _checked_at_its_end(records: tf.data.Dataset, shard: tf.Tensor, places: Places) -> tf.data.Dataset:
    """The same records; after the last one `places` is asked whether the shard has more than were read."""
    end = tf.data.Dataset.from_tensors((shard, np.int64(-1), b""))
    counted = records.concatenate(end).scan(np.int64(0), lambda read, record: (read + 1, (*record, read)))

    def keep(shard: tf.Tensor, number: tf.Tensor, _: tf.Tensor, read: tf.Tensor) -> tf.Tensor:
        return tf.cond(
            number < 0,
            lambda: tf.ensure_shape(tf.numpy_function(places.ended, [shard, read], tf.bool), ()),
            lambda: tf.constant(True),
        )

    return counted.filter(keep).map(lambda shard, number, payload, _: (shard, number, payload))


def work_on_located(records: tf.data.Dataset, work: Work, parallel: int, places: Places) -> tf.data.Dataset:
    """`work` on each of (index, (shard, record, payload)), `parallel` at a time, in their order.

    A record on which it fails is left out, and `places` is told.
    """
    form = records.map(lambda index, record: work(index, record[2])).element_spec

    def attempt(index: tf.Tensor, record: Any) -> tf.data.Dataset:
        shard, number, payload = record
        worked = tf.data.Dataset.from_tensors((index, payload)).map(work).ignore_errors()
        failed = (
            tf.data.Dataset.from_tensors((shard, number))
            .filter(lambda *place: tf.ensure_shape(tf.numpy_function(places.corrupt, place, tf.bool), ()))
            .map(lambda *_: tuple(tf.zeros(part.shape, part.dtype) for part in form))
        )
        return worked.concatenate(failed).take(1)  # the second is asked only where the first has nothing

    return records.interleave(attempt, cycle_length=parallel, num_parallel_calls=parallel, deterministic=True)


@contextmanager
def naming_corrupt(spec: InputSpec) -> Iterator[None]:
    """Where TensorFlow stops at a corrupt record of `spec.data`, say which it was.

    The good path carries no names through the pipeline: the data are read once more, in the same order, up to the
    first record that is corrupt.

    Raises:
        MeasurementError: the record was found.
    """
    try:
        yield
    except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
        if not spec.data.folder or spec.data.on_corrupt is OnCorrupt.SKIP:
            raise
        if place := first_corrupt(spec):
            raise MeasurementError(
                f"{place} in {spec.data.folder} is corrupt: {str(error).splitlines()[0][:300]}. Write the data anew, "
                "or leave such records out with --tfperf-corrupt=skip"
            ) from error
        raise


def first_corrupt(spec: InputSpec, seconds: float = _SEARCH_SECONDS) -> str:
    """Shard and number of the first record that can't be decoded, in reading order; "" where none is found in time."""
    shards = shuffled(spec)
    found = Skipped()
    places = Places(shards, found)
    once = work_on_located(located(shards, places).enumerate(), _decode, 4, places)
    end = time.monotonic() + seconds
    for _ in once:
        if found or time.monotonic() > end:
            break
    return found.first


def _decode(_: tf.Tensor, payload: tf.Tensor) -> tuple[tf.Tensor]:
    image = tf.io.parse_single_example(payload, {IMAGE: tf.io.FixedLenFeature([], tf.string)})[IMAGE]
    return (tf.shape(tf.io.decode_jpeg(image, channels=3)),)
