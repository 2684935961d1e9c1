"""Photographs from TFRecords of the ImageNet schema, in `--tfperf-data-dir`; as tf_cnn_benchmarks processes them."""

from __future__ import annotations

import tensorflow as tf

from pytest_tfperf.training.inputs import Alone, InputSpec
from pytest_tfperf.training.photographs import Processing, photographs


def imagenet(spec: InputSpec) -> tf.data.Dataset:
    """Without distortions: read, crop at random, decode, resize, flip."""
    return photographs(spec, Processing())


def imagenet_distortions(spec: InputSpec) -> tf.data.Dataset:
    """The same, and other colours: brightness, saturation, hue, contrast."""
    return photographs(spec, Processing(distortions=True))


def imagenet_consistent(spec: InputSpec) -> tf.data.Dataset:
    """Without distortions, resized by four methods in turns, as in Lambda's runs."""
    return photographs(spec, Processing(consistent=True))


def imagenet_distortions_consistent(spec: InputSpec) -> tf.data.Dataset:
    """With distortions, resized by four methods in turns, as in Lambda's runs."""
    return photographs(spec, Processing(distortions=True, consistent=True))


def imagenet_cached(spec: InputSpec) -> tf.data.Dataset:
    """Without distortions, one record from memory over and over: all but the reading."""
    return photographs(spec, Processing(), cached=True)


def imagenet_only(spec: InputSpec) -> Alone:
    """`imagenet` by itself: batches are fetched and nothing is trained; the model says but their shape."""
    return Alone(imagenet(spec))


def imagenet_distortions_only(spec: InputSpec) -> Alone:
    """`imagenet-distortions` by itself."""
    return Alone(imagenet_distortions(spec))
