"""Photographs from the ImageNet TFRecords in `--tfperf-data-dir`, processed as tf_cnn_benchmarks does."""

from __future__ import annotations

import tensorflow as tf

from pytest_tfperf.training.input_spec import InputSpec
from pytest_tfperf.training.inputs import PipelineOnly
from pytest_tfperf.training.photographs import photographs


def imagenet(spec: InputSpec) -> tf.data.Dataset:
    """Without distortions: read, crop at random, decode, resize, flip."""
    return photographs(spec)


def imagenet_distortions(spec: InputSpec) -> tf.data.Dataset:
    """With distortions: also change brightness, saturation, hue and contrast."""
    return photographs(spec, distortions=True)


def imagenet_consistent(spec: InputSpec) -> tf.data.Dataset:
    """Without distortions, resized by four methods in turn, as in Lambda's runs."""
    return photographs(spec, consistent=True)


def imagenet_distortions_consistent(spec: InputSpec) -> tf.data.Dataset:
    """With distortions, resized by four methods in turn, as in Lambda's runs."""
    return photographs(spec, distortions=True, consistent=True)


def imagenet_cached(spec: InputSpec) -> tf.data.Dataset:
    """Without distortions, of one record in memory: the cost of everything but reading."""
    return photographs(spec, cached=True)


def imagenet_only(spec: InputSpec) -> PipelineOnly:
    """`imagenet` without training; of the model only the image's shape and the number of classes matter."""
    return PipelineOnly(imagenet(spec))


def imagenet_distortions_only(spec: InputSpec) -> PipelineOnly:
    """`imagenet-distortions` without training."""
    return PipelineOnly(imagenet_distortions(spec))
