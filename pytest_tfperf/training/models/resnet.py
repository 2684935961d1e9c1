"""Residual networks, version 1: for ImageNet with bottlenecks, and for CIFAR-10 with plain blocks.

Sources: He et al., arXiv:1512.03385; tensorflow/benchmarks, resnet_model.py (stride 2 on the first 1x1 convolution and
on the projection: v1, not v1.5).
"""

from __future__ import annotations

import keras
from keras import initializers, layers

from pytest_tfperf.training.layers import FusedBatchNormalization


def resnet50() -> keras.Model:
    """ImageNet: [batch, 224, 224, 3] to [batch, 1001]; 25,559,081 parameters, 3.858 GMAC an image."""
    return _imagenet("resnet50", (3, 4, 6, 3))


def resnet101() -> keras.Model:
    """ImageNet: [batch, 224, 224, 3] to [batch, 1001]; 44,551,209 parameters, 7.570 GMAC an image."""
    return _imagenet("resnet101", (3, 4, 23, 3))


def resnet152() -> keras.Model:
    """ImageNet: [batch, 224, 224, 3] to [batch, 1001]; 60,194,857 parameters, 11.282 GMAC an image."""
    return _imagenet("resnet152", (3, 8, 36, 3))


def resnet20() -> keras.Model:
    """CIFAR-10: [batch, 32, 32, 3] to [batch, 11]; 269,787 parameters, 0.0406 GMAC an image."""
    return _cifar("resnet20", 3)


def resnet56() -> keras.Model:
    """CIFAR-10: [batch, 32, 32, 3] to [batch, 11]; 853,083 parameters, 0.1255 GMAC an image."""
    return _cifar("resnet56", 9)


def _imagenet(name: str, blocks_in_stages: tuple[int, int, int, int]) -> keras.Model:
    images = keras.Input((224, 224, 3))
    x = layers.ZeroPadding2D(3)(images)
    x = _convolution(x, 64, 7, stride=2, padding="valid")
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    for stage, blocks in enumerate(blocks_in_stages):
        for block in range(blocks):
            x = _bottleneck(x, 64 * 2**stage, stride=2 if stage > 0 and block == 0 else 1)
    return keras.Model(images, _logits(x, 1001), name=name)


def _cifar(name: str, blocks_in_stage: int) -> keras.Model:
    images = keras.Input((32, 32, 3))
    x = _convolution(images, 16, 3, relu=False)
    for stage in range(3):
        for block in range(blocks_in_stage):
            x = _plain(x, 16 * 2**stage, stride=2 if stage > 0 and block == 0 else 1)
    return keras.Model(images, _logits(x, 11), name=name)


def _bottleneck(x: keras.KerasTensor, width: int, stride: int) -> keras.KerasTensor:
    """1x1, 3x3, 1x1 with four times the channels; the shortcut is projected where the channels change."""
    shortcut = x if x.shape[-1] == 4 * width else _convolution(x, 4 * width, 1, stride=stride, relu=False)
    y = _convolution(x, width, 1, stride=stride)
    y = _convolution(y, width, 3)
    y = _convolution(y, 4 * width, 1, relu=False)
    return layers.ReLU()(layers.Add()([shortcut, y]))


def _plain(x: keras.KerasTensor, channels: int, stride: int) -> keras.KerasTensor:
    """3x3, 3x3; where the channels double, the shortcut is every second pixel, padded with zero channels."""
    shortcut = x if x.shape[-1] == channels else _widened(x, channels, stride)
    y = _convolution(x, channels, 3, stride=stride)
    y = _convolution(y, channels, 3, relu=False)
    return layers.ReLU()(layers.Add()([shortcut, y]))


def _widened(x: keras.KerasTensor, channels: int, stride: int) -> keras.KerasTensor:
    before = (channels - x.shape[-1]) // 2
    x = layers.AveragePooling2D(1, stride)(x)
    return keras.ops.pad(x, [[0, 0], [0, 0], [0, 0], [before, channels - x.shape[-1] - before]])


def _convolution(
    x: keras.KerasTensor, channels: int, size: int, *, stride: int = 1, padding: str = "same", relu: bool = True
) -> keras.KerasTensor:
    kernel = initializers.VarianceScaling()
    x = layers.Conv2D(channels, size, stride, padding, use_bias=False, kernel_initializer=kernel)(x)
    x = FusedBatchNormalization(momentum=0.9, epsilon=1e-5)(x)
    return layers.ReLU()(x) if relu else x


def _logits(x: keras.KerasTensor, classes: int) -> keras.KerasTensor:
    x = layers.GlobalAveragePooling2D()(x)
    return layers.Dense(classes, kernel_initializer=initializers.VarianceScaling())(x)
