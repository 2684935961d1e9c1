"""Synthetic images in the host's memory: the cost of copying to the device."""

from __future__ import annotations

import tensorflow as tf

from pytest_tfperf.training.inputs import InputSpec


def host(spec: InputSpec) -> tf.data.Dataset:
    """One constant batch, kept by TensorFlow's runtime on the host and copied to the device in each step.

    As tensorpack's `--fake-location cpu`. On CPU devices there is nothing to copy.
    """
    with tf.device("CPU:0"):  # without this TensorFlow makes the tensors on the first GPU, where a copy of them stays
        return tf.data.Dataset.from_tensors(spec.synthetic()).repeat()
