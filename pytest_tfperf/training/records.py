"""The records of a data set, each with its place, so that a corrupt one can be named and left out."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from pytest_tfperf.training import tfrecord
from pytest_tfperf.training.inputs import InputSpec
from pytest_tfperf.training.skipped import Place

_SHARDS_AT_ONCE = 10  # as tf_cnn_benchmarks reads them
_IN_A_ROW = 16
_BUFFER_BYTES = 1 << 20

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
    """Says where corrupt records lie; called by tf.data's threads.

    Args:
        shards: paths, in the order in which they are read.
        tell: is told.
    """

    def __init__(self, shards: Sequence[str], tell: Callable[[Place], object]) -> None:
        self._shards = shards
        self._tell = tell
        self._lengths: dict[int, int] = {}

    def corrupt(self, shard: Any, number: Any) -> Any:
        """Tell of one record; False, for a filter that lets nothing through."""
        self._tell(Place(self._shards[shard], int(number)))
        return np.bool_(False)

    def ended(self, shard: Any, read: Any) -> Any:
        """Tell of the record after which a shard could not be read on, if it has more than `read` of them."""
        if self._length(int(shard)) > read:
            self._tell(Place(self._shards[shard], int(read), and_rest=True))
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
