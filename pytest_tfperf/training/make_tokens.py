"""Writes a small data set of texts as token ids, in the features of BERT's classifier; `tfperf make-tokens` runs it.

What reading it costs depends on the number and size of the ids, which are BERT's: 128 of a vocabulary of 30,522. Texts
of class 1 often have one word that others never have.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.core.data_sets import TEXT_LABEL, TOKENS
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.training.data_set_command import run, write

if TYPE_CHECKING:
    import tensorflow as tf

_LENGTH, _SHORTEST = 128, 16
_WORDS = range(1000, 30522)  # below are BERT's special tokens
_START, _END, _TELLING = 101, 102, 999


def make_tokens(folder: Path, texts: int, shards: int, seed: int) -> str:
    """Write `texts` records into `folder`, in `shards` files; one seed gives the same files. Returns what was written.

    Raises:
        TfperfError: impossible counts, a folder that can't be written or has such files already, or no TensorFlow.
    """
    if not 1 <= shards <= texts:
        raise TfperfError(f"--texts {texts} --shards {shards}: give at least one text for each shard")
    try:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no device is used, so nothing that it logs matters
        import tensorflow as tf  # noqa: F401
    except ImportError as error:
        raise TfperfError(f"make-tokens needs TensorFlow, which {sys.executable} can't load: {error}") from error
    size = write(folder, TOKENS, _examples(random.Random(seed)), texts, shards)
    return f"{folder}: {texts:,} texts of {_LENGTH} tokens in {shards} shard(s), {size / 1e6:,.1f} MB"


def _examples(rng: random.Random) -> Iterator[tf.train.Example]:
    """Endless."""
    import tensorflow as tf

    while True:
        label, length = rng.randrange(2), rng.randint(_SHORTEST, _LENGTH)
        words = [_TELLING if label and rng.random() < 0.125 else rng.choice(_WORDS) for _ in range(length - 2)]
        padding = [0] * (_LENGTH - length)
        example = tf.train.Example()
        feature = example.features.feature
        feature["input_ids"].int64_list.value.extend([_START, *words, _END, *padding])
        feature["input_mask"].int64_list.value.extend([1] * length + padding)
        feature["segment_ids"].int64_list.value.extend([0] * _LENGTH)
        feature[TEXT_LABEL].int64_list.value.append(label)
        yield example


if __name__ == "__main__":
    sys.exit(run(make_tokens, *sys.argv[1:]))
