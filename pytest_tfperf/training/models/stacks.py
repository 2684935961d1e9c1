"""Models without branches, each layer after the other: trivial, AlexNet and VGG.

AlexNet is that of "One weird trick", with a single column of convolutions; VGG has 3x3 convolutions. Both have biases,
and then two dense layers with most of the parameters, each with a dropout of 0.5.
Sources of VGG: Simonyan and Zisserman, arXiv:1409.1556 (columns D and E); tensorflow/benchmarks, vgg_model.py.
"""

from __future__ import annotations

import keras
from keras import initializers, layers


def trivial() -> keras.Model:
    """Flatten, 1, 4096, logits: [batch, 227, 227, 3] to [batch, 1001]; 4,263,877 parameters.

    Source: tensorflow/benchmarks, trivial_model.py.
    """
    images = keras.Input((227, 227, 3))
    x = layers.Flatten()(images)
    x = layers.Dense(1, activation="relu")(x)
    x = layers.Dense(4096, activation="relu")(x)
    return keras.Model(images, layers.Dense(1001)(x), name="trivial")


def alexnet() -> keras.Model:
    """ImageNet: [batch, 227, 227, 3] to [batch, 1001]; 61,842,345 parameters, 0.839 GMAC an image.

    Without local response normalisation. Sources: Krizhevsky, arXiv:1404.5997; tensorflow/benchmarks, alexnet_model.py.
    """
    images = keras.Input((227, 227, 3))
    x = layers.MaxPooling2D(3, 2)(_convolution(images, 64, 11, stride=4, padding="valid"))
    x = layers.MaxPooling2D(3, 2)(_convolution(x, 192, 5))
    x = _convolution(x, 384, 3)
    x = _convolution(x, 384, 3)
    x = layers.MaxPooling2D(3, 2)(_convolution(x, 256, 3))
    return keras.Model(images, _logits(x), name="alexnet")


def vgg16() -> keras.Model:
    """ImageNet: [batch, 224, 224, 3] to [batch, 1001]; 138,361,641 parameters, 15.470 GMAC an image."""
    return _vgg("vgg16", (2, 2, 3, 3, 3))


def vgg19() -> keras.Model:
    """ImageNet: [batch, 224, 224, 3] to [batch, 1001]; 143,671,337 parameters, 19.632 GMAC an image."""
    return _vgg("vgg19", (2, 2, 4, 4, 4))


def _vgg(name: str, convolutions_in_stages: tuple[int, int, int, int, int]) -> keras.Model:
    images = x = keras.Input((224, 224, 3))
    for channels, convolutions in zip((64, 128, 256, 512, 512), convolutions_in_stages, strict=True):
        for _ in range(convolutions):
            x = _convolution(x, channels, 3)
        x = layers.MaxPooling2D(2)(x)
    return keras.Model(images, _logits(x), name=name)


def _convolution(
    x: keras.KerasTensor, channels: int, size: int, *, stride: int = 1, padding: str = "same"
) -> keras.KerasTensor:
    kernel = initializers.VarianceScaling()
    return layers.Conv2D(channels, size, stride, padding, activation="relu", kernel_initializer=kernel)(x)


def _logits(x: keras.KerasTensor) -> keras.KerasTensor:
    """Two dense layers of 4096, each with a dropout of 0.5 behind it, and the classes."""
    x = layers.Flatten()(x)
    for _ in range(2):
        x = layers.Dense(4096, activation="relu", kernel_initializer=initializers.VarianceScaling(2.0))(x)
        x = layers.Dropout(0.5)(x)
    return layers.Dense(1001, kernel_initializer=initializers.VarianceScaling())(x)
