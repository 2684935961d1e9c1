"""Writes a small data set of texts as token ids, in the features of BERT's classifier; `tfperf make-tokens` runs it.

What reading it costs depends on the number and size of the ids, which are BERT's: 128 of a vocabulary of 30,522. Texts
of class 1 often have one word that others never have.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.core.data_sets import TEXT_LABEL, TOKENS
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.training.data_set_command import run

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
        import tensorflow as tf
    except ImportError as error:
        raise TfperfError(f"make-tokens needs TensorFlow, which {sys.executable} can't load: {error}") from error
    rng = random.Random(seed)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.glob(f"{TOKENS.prefix}-*")):
            raise TfperfError(f"{folder} has files {TOKENS.prefix}-...: name another folder, or remove them first")
        with tempfile.TemporaryDirectory(prefix=".tokens-", dir=folder) as unfinished:
            for shard in range(shards):
                path = Path(unfinished) / f"{TOKENS.prefix}-{shard:05d}-of-{shards:05d}"
                with tf.io.TFRecordWriter(str(path)) as file:
                    for _ in range(shard * texts // shards, (shard + 1) * texts // shards):
                        file.write(_example(rng).SerializeToString(deterministic=True))
            files = sorted(Path(unfinished).iterdir())
            size = sum(file.stat().st_size for file in files)
            for path in files:
                path.rename(folder / path.name)
    except (OSError, tf.errors.OpError) as error:
        raise TfperfError(f"{folder} can't be written: {error}. Name another folder") from error
    return f"{folder}: {texts:,} texts of {_LENGTH} tokens in {shards} shard(s), {size / 1e6:,.1f} MB"


def _example(rng: random.Random) -> tf.train.Example:
    import tensorflow as tf

    label, length = rng.randrange(2), rng.randint(_SHORTEST, _LENGTH)
    words = [_TELLING if label and rng.random() < 0.125 else rng.choice(_WORDS) for _ in range(length - 2)]
    ids = [_START, *words, _END]
    padding = [0] * (_LENGTH - length)
    example = tf.train.Example()
    feature = example.features.feature
    feature["input_ids"].int64_list.value.extend([*ids, *padding])
    feature["input_mask"].int64_list.value.extend([1] * length + padding)
    feature["segment_ids"].int64_list.value.extend([0] * _LENGTH)
    feature[TEXT_LABEL].int64_list.value.append(label)
    return example


if __name__ == "__main__":
    sys.exit(run(make_tokens, *sys.argv[1:]))
