"""Inception networks: parallel branches of convolutions, concatenated along the channels.

Sources: Szegedy et al., arXiv:1512.00567 (version 3) and arXiv:1602.07261 (version 4); tensorflow/benchmarks,
inception_model.py (no auxiliary head; batch normalisation without gamma; version 3's last block pools by maximum).
"""

from __future__ import annotations

import keras
from keras import initializers, layers

from pytest_tfperf.training.layers import FusedBatchNormalization

_Size = int | tuple[int, int]


def inception3() -> keras.Model:
    """ImageNet: [batch, 299, 299, 3] to [batch, 1001]; 23,819,401 parameters, 5.713 GMAC an image."""
    images = keras.Input((299, 299, 3))
    x = _valid(images, 32, 3, stride=2)
    x = _valid(x, 32, 3)
    x = _convolution(x, 64, 3)
    x = _max_pooled(x)
    x = _valid(x, 80, 1)
    x = _valid(x, 192, 3)
    x = _max_pooled(x)
    for pooled_channels in (32, 64, 64):  # 35 x 35
        x = _v3_block_35(x, pooled_channels)
    x = _concatenated(_valid(x, 384, 3, stride=2), _valid(_chain(x, (64, 1), (96, 3)), 96, 3, stride=2), _max_pooled(x))
    for width in (128, 160, 160, 192):  # 17 x 17
        x = _v3_block_17(x, width)
    x = _concatenated(
        _valid(_chain(x, (192, 1)), 320, 3, stride=2),
        _valid(_chain(x, (192, 1), (192, (1, 7)), (192, (7, 1))), 192, 3, stride=2),
        _max_pooled(x),
    )
    for pool in (layers.AveragePooling2D, layers.MaxPooling2D):  # 8 x 8
        x = _v3_block_8(x, pool(3, 1, "same")(x))
    return keras.Model(images, _logits(layers.GlobalAveragePooling2D()(x)), name="inception3")


def inception4() -> keras.Model:
    """ImageNet: [batch, 299, 299, 3] to [batch, 1001]; 42,649,769 parameters, 12.254 GMAC an image.

    Dropout removes a fifth of the last features in training.
    """
    images = keras.Input((299, 299, 3))
    x = _valid(images, 32, 3, stride=2)
    x = _valid(x, 32, 3)
    x = _convolution(x, 64, 3)
    x = _concatenated(_max_pooled(x), _valid(x, 96, 3, stride=2))
    x = _concatenated(
        _valid(_chain(x, (64, 1)), 96, 3),
        _valid(_chain(x, (64, 1), (64, (7, 1)), (64, (1, 7))), 96, 3),
    )
    x = _concatenated(_valid(x, 192, 3, stride=2), _max_pooled(x))
    for _ in range(4):  # 35 x 35
        x = _v4_block_35(x)
    x = _concatenated(
        _max_pooled(x), _valid(x, 384, 3, stride=2), _valid(_chain(x, (192, 1), (224, 3)), 256, 3, stride=2)
    )
    for _ in range(7):  # 17 x 17
        x = _v4_block_17(x)
    x = _concatenated(
        _max_pooled(x),
        _valid(_chain(x, (192, 1)), 192, 3, stride=2),
        _valid(_chain(x, (256, 1), (256, (1, 7)), (320, (7, 1))), 320, 3, stride=2),
    )
    for _ in range(3):  # 8 x 8
        x = _v4_block_8(x)
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(images, _logits(x), name="inception4")


def _v3_block_35(x: keras.KerasTensor, pooled_channels: int) -> keras.KerasTensor:
    return _concatenated(
        _chain(x, (64, 1)),
        _chain(x, (48, 1), (64, 5)),
        _chain(x, (64, 1), (96, 3), (96, 3)),
        _chain(_average_pooled(x), (pooled_channels, 1)),
    )


def _v3_block_17(x: keras.KerasTensor, width: int) -> keras.KerasTensor:
    """7x7 convolutions, each replaced by a row and a column."""
    return _concatenated(
        _chain(x, (192, 1)),
        _chain(x, (width, 1), (width, (1, 7)), (192, (7, 1))),
        _chain(x, (width, 1), (width, (7, 1)), (width, (1, 7)), (width, (7, 1)), (192, (1, 7))),
        _chain(_average_pooled(x), (192, 1)),
    )


def _v3_block_8(x: keras.KerasTensor, pooled: keras.KerasTensor) -> keras.KerasTensor:
    narrow = _chain(x, (384, 1))
    wide = _chain(x, (448, 1), (384, 3))
    return _concatenated(_chain(x, (320, 1)), *_fork(narrow, 384), *_fork(wide, 384), _chain(pooled, (192, 1)))


def _v4_block_35(x: keras.KerasTensor) -> keras.KerasTensor:
    return _concatenated(
        _chain(_average_pooled(x), (96, 1)),
        _chain(x, (96, 1)),
        _chain(x, (64, 1), (96, 3)),
        _chain(x, (64, 1), (96, 3), (96, 3)),
    )


def _v4_block_17(x: keras.KerasTensor) -> keras.KerasTensor:
    return _concatenated(
        _chain(_average_pooled(x), (128, 1)),
        _chain(x, (384, 1)),
        _chain(x, (192, 1), (224, (1, 7)), (256, (7, 1))),
        _chain(x, (192, 1), (192, (1, 7)), (224, (7, 1)), (224, (1, 7)), (256, (7, 1))),
    )


def _v4_block_8(x: keras.KerasTensor) -> keras.KerasTensor:
    narrow = _chain(x, (384, 1))
    wide = _chain(x, (384, 1), (448, (1, 3)), (512, (3, 1)))
    return _concatenated(
        _chain(_average_pooled(x), (256, 1)), _chain(x, (256, 1)), *_fork(narrow, 256), *_fork(wide, 256)
    )


def _fork(x: keras.KerasTensor, channels: int) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    return _convolution(x, channels, (1, 3)), _convolution(x, channels, (3, 1))


def _concatenated(*branches: keras.KerasTensor) -> keras.KerasTensor:
    return layers.Concatenate()(list(branches))


def _average_pooled(x: keras.KerasTensor) -> keras.KerasTensor:
    return layers.AveragePooling2D(3, 1, "same")(x)


def _max_pooled(x: keras.KerasTensor) -> keras.KerasTensor:
    return layers.MaxPooling2D(3, 2)(x)


def _chain(x: keras.KerasTensor, *convolutions: tuple[int, _Size]) -> keras.KerasTensor:
    """Convolutions in sequence, each (channels, size), that keep height and width."""
    for channels, size in convolutions:
        x = _convolution(x, channels, size)
    return x


def _valid(x: keras.KerasTensor, channels: int, size: _Size, *, stride: int = 1) -> keras.KerasTensor:
    return _convolution(x, channels, size, stride, "valid")


def _convolution(
    x: keras.KerasTensor, channels: int, size: _Size, stride: int = 1, padding: str = "same"
) -> keras.KerasTensor:
    kernel = initializers.VarianceScaling()
    x = layers.Conv2D(channels, size, stride, padding, use_bias=False, kernel_initializer=kernel)(x)
    x = FusedBatchNormalization(momentum=0.999, epsilon=1e-3, scale=False)(x)
    return layers.ReLU()(x)


def _logits(x: keras.KerasTensor) -> keras.KerasTensor:
    return layers.Dense(1001, kernel_initializer=initializers.VarianceScaling())(x)
