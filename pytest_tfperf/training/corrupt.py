"""Which record stopped a run: the good path carries no names, so the data are read once more to find out."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from pytest_tfperf.core.image_data import OnCorrupt
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.training.inputs import InputSpec
from pytest_tfperf.training.photographs import check
from pytest_tfperf.training.records import Places, located, shuffled, work_on_located
from pytest_tfperf.training.skipped import Place

_SEARCH_SECONDS = 120.0
_MOST_LETTERS = 200

# TensorFlow quotes what it can't parse, and Python then can't decode the quotation.
_FAULTS = (tf.errors.InvalidArgumentError, tf.errors.DataLossError, UnicodeDecodeError)

# Which function and iterator it was, the fault itself, which node it was.
_FAULT = re.compile(
    r"(?:\{\{function_node [^}]*\}\} )*(?:Error in user-defined function .*? with iterator: \S+: )?"
    r"(?P<fault>.*?)(?:, value: .*|\s*\n\s*\[\[.*| \[Op:.*)?",
    re.DOTALL,
)


@contextmanager
def naming_corrupt(spec: InputSpec) -> Iterator[None]:
    """Where TensorFlow stops at a corrupt record of `spec.data`, say which it was and what is wrong with it.

    The data are read once more, in the same order, up to the first record that is corrupt.

    Raises:
        MeasurementError: the record was found.
    """
    try:
        yield
    except _FAULTS as error:
        if not spec.data.folder or spec.data.on_corrupt is OnCorrupt.SKIP:
            raise
        if place := first_corrupt(spec):
            raise MeasurementError(
                f"{place.record} in {spec.data.folder} is corrupt: {_fault(place, spec)}. Write the data anew, "
                "or leave such records out with --tfperf-corrupt=skip"
            ) from error
        raise


def first_corrupt(spec: InputSpec, seconds: float = _SEARCH_SECONDS) -> Place | None:
    """The first record that no pipeline could read or work on, in reading order; None where none is found in time."""
    shards = shuffled(spec)
    found: list[Place] = []
    places = Places(shards, found.append)
    once = work_on_located(located(shards, places).enumerate(), check(spec), 4, places)
    end = time.monotonic() + seconds
    for _ in once:
        if found or time.monotonic() > end:
            break
    return found[0] if found else None


def _fault(place: Place, spec: InputSpec) -> str:
    """What TensorFlow says of this record, in one line."""
    alone = tf.data.TFRecordDataset(place.shard).skip(place.number).take(1).enumerate().map(check(spec))
    try:
        for _ in alone:
            pass
    except _FAULTS as error:
        return _in_one_line(error)
    return "it can't be read"


def _in_one_line(error: Any) -> str:
    text = error.object.decode(errors="backslashreplace") if isinstance(error, UnicodeDecodeError) else error.message
    match = _FAULT.fullmatch(text)
    assert match is not None  # each of its parts may be missing
    return " ".join(match["fault"].split()).rstrip(".")[:_MOST_LETTERS]
