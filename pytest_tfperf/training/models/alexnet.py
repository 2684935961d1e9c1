"""AlexNet as in "One weird trick": one column of convolutions, then two wide dense layers."""

from __future__ import annotations

import keras
from keras import initializers, layers


def alexnet() -> keras.Model:
    """ImageNet: [batch, 227, 227, 3] to [batch, 1001]; 61,842,345 parameters, 0.839 GMAC an image.

    With biases, without local response normalisation; dropout of 0.5 after each dense layer.
    Sources: Krizhevsky, arXiv:1404.5997; tensorflow/benchmarks, alexnet_model.py.
    """
    images = keras.Input((227, 227, 3))
    x = layers.MaxPooling2D(3, 2)(_convolution(images, 64, 11, stride=4, padding="valid"))
    x = layers.MaxPooling2D(3, 2)(_convolution(x, 192, 5))
    x = _convolution(x, 384, 3)
    x = _convolution(x, 384, 3)
    x = layers.MaxPooling2D(3, 2)(_convolution(x, 256, 3))
    x = layers.Flatten()(x)
    for _ in range(2):
        x = layers.Dense(4096, activation="relu", kernel_initializer=initializers.VarianceScaling(2.0))(x)
        x = layers.Dropout(0.5)(x)
    return keras.Model(images, layers.Dense(1001, kernel_initializer=initializers.VarianceScaling())(x), name="alexnet")


def _convolution(
    x: keras.KerasTensor, channels: int, size: int, *, stride: int = 1, padding: str = "same"
) -> keras.KerasTensor:
    kernel = initializers.VarianceScaling()
    return layers.Conv2D(channels, size, stride, padding, activation="relu", kernel_initializer=kernel)(x)
