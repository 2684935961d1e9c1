"""What `tfperf make-imagenet` and `tfperf make-tokens` have in common; they run where TensorFlow can be loaded."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.core.consequence import EXIT_GREEN, EXIT_USAGE
from pytest_tfperf.core.data_sets import DataSet
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.safe_text import printable

if TYPE_CHECKING:
    import tensorflow as tf


def run(make: Callable[[Path, int, int, int], str], folder: str, *counts: str) -> int:
    """Write a data set and say what was written; returns the exit status, 4 if nothing was written.

    Args:
        make: writes it, and returns a sentence about it.
        folder: where to.
        counts: examples, shards and seed, as the command line has them.
    """
    try:
        print(printable(make(Path(folder), *map(int, counts))))
    except TfperfError as error:
        print(printable(f"tfperf: {error}"), file=sys.stderr)
        return EXIT_USAGE
    print(printable(f"use it: pytest perf_tests --tfperf-data-dir={Path(folder).resolve()}"))
    return EXIT_GREEN


def write(folder: Path, data: DataSet, examples: Iterator[tf.train.Example], count: int, shards: int) -> int:
    """Write `count` examples into a folder, in `shards` files; returns the files' bytes.

    Raises:
        TfperfError: the folder can't be written, or has such files already.
    """
    import tensorflow as tf

    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.glob(f"{data.prefix}-*")):
            raise TfperfError(f"{folder} has files {data.prefix}-...: name another folder, or remove them first")
        with tempfile.TemporaryDirectory(prefix=f".{data.prefix}-", dir=folder) as unfinished:
            for shard in range(shards):
                path = Path(unfinished) / f"{data.prefix}-{shard:05d}-of-{shards:05d}"
                with tf.io.TFRecordWriter(str(path)) as file:
                    for example in islice(examples, (shard + 1) * count // shards - shard * count // shards):
                        file.write(example.SerializeToString(deterministic=True))
            files = sorted(Path(unfinished).iterdir())
            size = sum(file.stat().st_size for file in files)
            for path in files:
                path.rename(folder / path.name)
    except (OSError, tf.errors.OpError) as error:
        raise TfperfError(f"{folder} can't be written: {error}. Name another folder") from error
    return size
