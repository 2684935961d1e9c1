"""Synthetic images in the host's memory: what copying to the device costs."""

from __future__ import annotations

import tensorflow as tf

from pytest_tfperf.training.inputs import InputSpec


def host(spec: InputSpec) -> tf.data.Dataset:
    """One constant batch, held in TensorFlow's runtime on the host and copied to the device for each step.

    As tensorpack's `--fake-location cpu`. On CPU devices there is nothing to copy.
    """
    with tf.device("CPU:0"):  # else TensorFlow makes the tensors on the first GPU, where a copy of them stays
        return tf.data.Dataset.from_tensors(spec.synthetic()).repeat()
