"""VGG: 3x3 convolutions with biases, then two dense layers that have most of the parameters.

Sources: Simonyan and Zisserman, arXiv:1409.1556 (columns D and E); tensorflow/benchmarks, vgg_model.py.
"""

from __future__ import annotations

import keras
from keras import initializers, layers


def vgg16() -> keras.Model:
    """ImageNet: [batch, 224, 224, 3] to [batch, 1001]; 138,361,641 parameters, 15.470 GMAC an image."""
    return _vgg("vgg16", (2, 2, 3, 3, 3))


def vgg19() -> keras.Model:
    """ImageNet: [batch, 224, 224, 3] to [batch, 1001]; 143,671,337 parameters, 19.632 GMAC an image."""
    return _vgg("vgg19", (2, 2, 4, 4, 4))


def _vgg(name: str, convolutions_in_stages: tuple[int, int, int, int, int]) -> keras.Model:
    """With dropout of 0.5 after each dense layer."""
    images = x = keras.Input((224, 224, 3))
    for channels, convolutions in zip((64, 128, 256, 512, 512), convolutions_in_stages, strict=True):
        for _ in range(convolutions):
            kernel = initializers.VarianceScaling()
            x = layers.Conv2D(channels, 3, padding="same", activation="relu", kernel_initializer=kernel)(x)
        x = layers.MaxPooling2D(2)(x)
    x = layers.Flatten()(x)
    for _ in range(2):
        x = layers.Dense(4096, activation="relu", kernel_initializer=initializers.VarianceScaling(2.0))(x)
        x = layers.Dropout(0.5)(x)
    return keras.Model(images, layers.Dense(1001, kernel_initializer=initializers.VarianceScaling())(x), name=name)
