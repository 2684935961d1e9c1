"""Multiply-adds of small models, against those that one counts by hand."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from pytest_tfperf.training.multiply_adds import forward_multiply_adds

layers = keras.layers


class Attended(layers.Layer):
    """Each pixel's channels times each other pixel's."""

    def call(self, images: Any) -> Any:
        rows = keras.ops.reshape(images, (-1, 64, 3))
        return keras.ops.matmul(rows, keras.ops.transpose(rows, (0, 2, 1)))


@pytest.mark.parametrize(
    ("layer", "wanted"),
    [
        pytest.param(layers.Conv2D(5, 3, padding="same"), 8 * 8 * 5 * 3 * 3 * 3, id="convolution"),
        pytest.param(layers.Conv2D(6, 3, padding="same", groups=3), 8 * 8 * 6 * 3 * 3 * 1, id="in-groups"),
        pytest.param(layers.DepthwiseConv2D(3, padding="same"), 8 * 8 * 3 * 3 * 3, id="depthwise"),
        pytest.param(Attended(), 64 * 64 * 3, id="batches-of-products"),
        pytest.param(layers.MaxPooling2D(), 0, id="no-products"),
    ],
)
def test_a_layers_multiply_adds_are_those_by_hand(cpus: list[str], layer: Any, wanted: int) -> None:
    images = keras.Input((8, 8, 3))
    assert forward_multiply_adds(keras.Model(images, layer(images))) == wanted


def test_a_dense_layer_has_one_for_each_weight(cpus: list[str]) -> None:
    images = keras.Input((8, 8, 3))
    logits = layers.Dense(10)(layers.Flatten()(images))
    assert forward_multiply_adds(keras.Model(images, logits)) == 8 * 8 * 3 * 10
