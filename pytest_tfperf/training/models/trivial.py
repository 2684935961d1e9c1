"""tf_cnn_benchmarks' trivial model: the cost of a step that computes almost nothing."""

from __future__ import annotations

import keras
from keras import layers


def trivial() -> keras.Model:
    """Flatten, 1, 4096, logits: [batch, 227, 227, 3] to [batch, 1001]; 4,263,877 parameters.

    Source: tensorflow/benchmarks, trivial_model.py.
    """
    images = keras.Input((227, 227, 3))
    x = layers.Flatten()(images)
    x = layers.Dense(1, activation="relu")(x)
    x = layers.Dense(4096, activation="relu")(x)
    return keras.Model(images, layers.Dense(1001)(x), name="trivial")
