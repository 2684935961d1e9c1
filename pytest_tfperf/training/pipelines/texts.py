"""Token ids from the TFRecords in `--tfperf-data-dir`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from pytest_tfperf.core.data_sets import TEXT_LABEL, TOKENS, shards
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.devices import max_threads
from pytest_tfperf.training.input_spec import InputSpec, described

_SHARDS_AT_ONCE = 10
_SHUFFLED = 10_000
_BATCHES_AHEAD_EACH = 2


def tokens(spec: InputSpec) -> tf.data.Dataset:
    """Records, shuffled by the seed; each of the model's inputs is the feature of the same name."""
    features = _features(spec)
    paths, threads = shards(spec.data_dir, TOKENS), max_threads()

    def parse(records: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        parsed = tf.io.parse_example(records, features)
        return parsed, parsed.pop(TEXT_LABEL)

    records = tf.data.Dataset.from_tensor_slices(list(paths)).interleave(
        tf.data.TFRecordDataset, cycle_length=min(_SHARDS_AT_ONCE, len(paths)), num_parallel_calls=min(2, len(paths))
    )
    batches = records.repeat().shuffle(_SHUFFLED, seed=spec.seed).batch(spec.batch_size, drop_remainder=True)
    options = tf.data.Options()
    options.autotune.enabled = False  # nothing tunes itself while it is measured
    parsed = batches.map(parse, num_parallel_calls=threads)
    return parsed.prefetch(_BATCHES_AHEAD_EACH * spec.replicas).with_options(options)


def _features(spec: InputSpec) -> dict[str, Any]:
    """The features of a record: the model's inputs, and the label."""
    inputs, label = spec.parts if isinstance(spec.parts, tuple) and len(spec.parts) == 2 else (None, None)
    parts = tf.nest.flatten(inputs)
    if label is None or label.shape or not all(part.dtype.is_integer and None not in part.shape for part in parts):
        raise WorkloadError(
            "this pipeline gives token ids of fixed length and one label for each text, and the model takes "
            f"{described(spec.parts)}"
        )
    features = {part.name: tf.io.FixedLenFeature(part.shape, tf.int64) for part in parts}
    return {**features, TEXT_LABEL: tf.io.FixedLenFeature((), tf.int64)}
