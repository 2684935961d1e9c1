"""Training steps of plain TensorFlow operations, without Keras: what `step_speed.py` compares the loop with.

Written as one would by hand for speed: fused batch normalisation, one `tf.function` for a step, a call for each step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

RATE = 0.01
DECAY = 4e-5


class Variables:
    """Makes the variables on the first pass over a model and gives them again, in order, on later ones."""

    def __init__(self) -> None:
        self.trained: list[tf.Variable] = []
        self._all: list[tf.Variable] = []
        self._next = 0

    def restart(self) -> None:
        self._next = 0

    def get(self, value: Callable[[], tf.Tensor], *, trained: bool = True) -> tf.Variable:
        if self._next == len(self._all):
            with tf.init_scope():
                self._all.append(tf.Variable(value(), trainable=trained))
            if trained:
                self.trained.append(self._all[-1])
        self._next += 1
        return self._all[self._next - 1]


def _weights(shape: list[int], fan_in: int) -> Callable[[], tf.Tensor]:
    return lambda: tf.random.truncated_normal(shape, stddev=fan_in**-0.5, seed=1)


def _convolution(v: Variables, x: tf.Tensor, channels: int, size: int, stride: int = 1, **how: Any) -> tf.Tensor:
    depth = x.shape[-1]
    kernel = v.get(_weights([size, size, depth, channels], size * size * depth))
    y = tf.nn.conv2d(x, kernel, stride, how.get("padding", "SAME"))
    gamma, beta = v.get(lambda: tf.ones(channels)), v.get(lambda: tf.zeros(channels))
    moving = v.get(lambda: tf.zeros(channels), trained=False), v.get(lambda: tf.ones(channels), trained=False)
    y, *batch = tf.compat.v1.nn.fused_batch_norm(y, gamma, beta, epsilon=1e-5, is_training=True)
    for statistic, seen in zip(moving, batch, strict=True):
        statistic.assign_sub((statistic - seen) * 0.1)
    return tf.nn.relu(y) if how.get("relu", True) else y


def _dense(v: Variables, x: tf.Tensor, units: int) -> tf.Tensor:
    kernel = v.get(_weights([x.shape[-1], units], x.shape[-1]))
    return tf.nn.bias_add(tf.matmul(x, kernel), v.get(lambda: tf.zeros(units)))


def _bottleneck(v: Variables, x: tf.Tensor, width: int, stride: int) -> tf.Tensor:
    shortcut = x if x.shape[-1] == 4 * width else _convolution(v, x, 4 * width, 1, stride, relu=False)
    y = _convolution(v, x, width, 1, stride)
    y = _convolution(v, y, width, 3)
    return tf.nn.relu(shortcut + _convolution(v, y, 4 * width, 1, relu=False))


def _plain(v: Variables, x: tf.Tensor, channels: int, stride: int) -> tf.Tensor:
    shortcut = x
    if x.shape[-1] != channels:
        pad = (channels - x.shape[-1]) // 2
        shortcut = tf.pad(tf.nn.avg_pool2d(x, 1, stride, "VALID"), [[0, 0], [0, 0], [0, 0], [pad, pad]])
    y = _convolution(v, x, channels, 3, stride)
    return tf.nn.relu(shortcut + _convolution(v, y, channels, 3, relu=False))


def resnet50(v: Variables, images: tf.Tensor) -> tf.Tensor:
    x = tf.pad(images, [[0, 0], [3, 3], [3, 3], [0, 0]])
    x = tf.nn.max_pool2d(_convolution(v, x, 64, 7, 2, padding="VALID"), 3, 2, "SAME")
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            x = _bottleneck(v, x, 64 * 2**stage, 2 if stage > 0 and block == 0 else 1)
    return _dense(v, tf.reduce_mean(x, [1, 2]), 1001)


def resnet20(v: Variables, images: tf.Tensor) -> tf.Tensor:
    x = _convolution(v, images, 16, 3, relu=False)
    for stage in range(3):
        for block in range(3):
            x = _plain(v, x, 16 * 2**stage, 2 if stage > 0 and block == 0 else 1)
    return _dense(v, tf.reduce_mean(x, [1, 2]), 11)


def trivial(v: Variables, images: tf.Tensor) -> tf.Tensor:
    x = tf.nn.relu(_dense(v, tf.reshape(images, [-1, 227 * 227 * 3]), 1))
    return _dense(v, tf.nn.relu(_dense(v, x, 4096)), 1001)


def step(model: Callable[[Variables, tf.Tensor], tf.Tensor], images: Any, labels: Any) -> Callable[[], tf.Tensor]:
    """A compiled training step of `model` on one batch, which lies in memory; returns the loss."""
    variables = Variables()
    images, labels = tf.constant(images), tf.constant(labels)

    @tf.function(autograph=False)
    def train() -> tf.Tensor:
        variables.restart()
        with tf.GradientTape() as tape:
            logits = model(variables, images)
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(each) + DECAY * tf.add_n([tf.nn.l2_loss(w) for w in variables.trained])
        for w, gradient in zip(variables.trained, tape.gradient(loss, variables.trained), strict=True):
            w.assign_sub(RATE * gradient)
        return loss

    return train
