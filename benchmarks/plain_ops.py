"""Training steps of plain TensorFlow operations, without Keras: what `step_speed.py` compares the loop with.

Written as one would by hand for speed: fused batch normalisation, one `tf.function` for a step, a call for each step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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


def _convolution(v: Variables, x: tf.Tensor, channels: int, size: Any, stride: int = 1, **how: Any) -> tf.Tensor:
    depth = x.shape[-1]
    height, width = size if isinstance(size, tuple) else (size, size)
    kernel = v.get(_weights([height, width, depth, channels], height * width * depth))
    y = tf.nn.conv2d(x, kernel, stride, how.get("padding", "SAME"))
    gamma = v.get(lambda: tf.ones(channels)) if how.get("gamma", True) else tf.ones(channels)
    beta = v.get(lambda: tf.zeros(channels))
    moving = v.get(lambda: tf.zeros(channels), trained=False), v.get(lambda: tf.ones(channels), trained=False)
    epsilon = how.get("epsilon", 1e-5)
    y, *batch = tf.compat.v1.nn.fused_batch_norm(y, gamma, beta, epsilon=epsilon, is_training=True)
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


def _resnet(v: Variables, images: tf.Tensor, blocks_in_stages: tuple[int, ...]) -> tf.Tensor:
    x = tf.pad(images, [[0, 0], [3, 3], [3, 3], [0, 0]])
    x = tf.nn.max_pool2d(_convolution(v, x, 64, 7, 2, padding="VALID"), 3, 2, "SAME")
    for stage, blocks in enumerate(blocks_in_stages):
        for block in range(blocks):
            x = _bottleneck(v, x, 64 * 2**stage, 2 if stage > 0 and block == 0 else 1)
    return _dense(v, tf.reduce_mean(x, [1, 2]), 1001)


def resnet50(v: Variables, images: tf.Tensor) -> tf.Tensor:
    return _resnet(v, images, (3, 4, 6, 3))


def resnet101(v: Variables, images: tf.Tensor) -> tf.Tensor:
    return _resnet(v, images, (3, 4, 23, 3))


def resnet152(v: Variables, images: tf.Tensor) -> tf.Tensor:
    return _resnet(v, images, (3, 8, 36, 3))


def _cifar(v: Variables, images: tf.Tensor, blocks_in_stage: int) -> tf.Tensor:
    x = _convolution(v, images, 16, 3, relu=False)
    for stage in range(3):
        for block in range(blocks_in_stage):
            x = _plain(v, x, 16 * 2**stage, 2 if stage > 0 and block == 0 else 1)
    return _dense(v, tf.reduce_mean(x, [1, 2]), 11)


def resnet20(v: Variables, images: tf.Tensor) -> tf.Tensor:
    return _cifar(v, images, 3)


def resnet56(v: Variables, images: tf.Tensor) -> tf.Tensor:
    return _cifar(v, images, 9)


def _inception(v: Variables, x: tf.Tensor, *layers: tuple[Any, ...]) -> tf.Tensor:
    """Layers one after the other: (channels, size), with stride 2 and no padding where a third says so."""
    for channels, size, *stride in layers:
        how = {"stride": stride[0], "padding": "VALID"} if stride else {}
        x = _convolution(v, x, channels, size, gamma=False, epsilon=1e-3, **how)
    return x


def _shrunk(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.max_pool2d(x, 3, 2, "VALID")


def _averaged(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.avg_pool2d(x, 3, 1, "SAME")


def inception3(v: Variables, images: tf.Tensor) -> tf.Tensor:
    layers = partial(_inception, v)
    row, column = (1, 7), (7, 1)
    x = _shrunk(layers(images, (32, 3, 2), (32, 3, 1), (64, 3)))
    x = _shrunk(layers(x, (80, 1), (192, 3, 1)))
    branches: list[tuple[tuple[Any, ...], ...]]
    for pooled in (32, 64, 64):
        branches = [((64, 1),), ((48, 1), (64, 5)), ((64, 1), (96, 3), (96, 3))]
        x = tf.concat([*(layers(x, *branch) for branch in branches), layers(_averaged(x), (pooled, 1))], 3)
    x = tf.concat([layers(x, (384, 3, 2)), layers(x, (64, 1), (96, 3), (96, 3, 2)), _shrunk(x)], 3)
    for n in (128, 160, 160, 192):
        branches = [
            ((192, 1),),
            ((n, 1), (n, row), (192, column)),
            ((n, 1), (n, column), (n, row), (n, column), (192, row)),
        ]
        x = tf.concat([*(layers(x, *branch) for branch in branches), layers(_averaged(x), (192, 1))], 3)
    one, other = layers(x, (192, 1), (320, 3, 2)), layers(x, (192, 1), (192, row), (192, column), (192, 3, 2))
    x = tf.concat([one, other, _shrunk(x)], 3)
    for pool in (tf.nn.avg_pool2d, tf.nn.max_pool2d):
        narrow, wide = layers(x, (384, 1)), layers(x, (448, 1), (384, 3))
        forks = [layers(y, (384, size)) for y in (narrow, wide) for size in ((1, 3), (3, 1))]
        x = tf.concat([layers(x, (320, 1)), *forks, layers(pool(x, 3, 1, "SAME"), (192, 1))], 3)
    return _dense(v, tf.reduce_mean(x, [1, 2]), 1001)


def inception4(v: Variables, images: tf.Tensor) -> tf.Tensor:
    layers = partial(_inception, v)
    row, column = (1, 7), (7, 1)
    x = layers(images, (32, 3, 2), (32, 3, 1), (64, 3))
    x = tf.concat([_shrunk(x), layers(x, (96, 3, 2))], 3)
    x = tf.concat([layers(x, (64, 1), (96, 3, 1)), layers(x, (64, 1), (64, column), (64, row), (96, 3, 1))], 3)
    x = tf.concat([layers(x, (192, 3, 2)), _shrunk(x)], 3)
    branches: list[tuple[tuple[Any, ...], ...]]
    for _ in range(4):
        branches = [((96, 1),), ((64, 1), (96, 3)), ((64, 1), (96, 3), (96, 3))]
        x = tf.concat([layers(_averaged(x), (96, 1)), *(layers(x, *branch) for branch in branches)], 3)
    x = tf.concat([_shrunk(x), layers(x, (384, 3, 2)), layers(x, (192, 1), (224, 3), (256, 3, 2))], 3)
    for _ in range(7):
        branches = [
            ((384, 1),),
            ((192, 1), (224, row), (256, column)),
            ((192, 1), (192, row), (224, column), (224, row), (256, column)),
        ]
        x = tf.concat([layers(_averaged(x), (128, 1)), *(layers(x, *branch) for branch in branches)], 3)
    one, other = layers(x, (192, 1), (192, 3, 2)), layers(x, (256, 1), (256, row), (320, column), (320, 3, 2))
    x = tf.concat([_shrunk(x), one, other], 3)
    for _ in range(3):
        narrow, wide = layers(x, (384, 1)), layers(x, (384, 1), (448, (1, 3)), (512, (3, 1)))
        forks = [layers(y, (256, size)) for y in (narrow, wide) for size in ((1, 3), (3, 1))]
        x = tf.concat([layers(_averaged(x), (256, 1)), layers(x, (256, 1)), *forks], 3)
    return _dense(v, tf.nn.dropout(tf.reduce_mean(x, [1, 2]), 0.2), 1001)


def _biased(v: Variables, x: tf.Tensor, channels: int, size: int, stride: int = 1, padding: str = "SAME") -> tf.Tensor:
    kernel = v.get(_weights([size, size, x.shape[-1], channels], size * size * x.shape[-1]))
    return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, stride, padding), v.get(lambda: tf.zeros(channels))))


def _wide_layers(v: Variables, x: tf.Tensor) -> tf.Tensor:
    x = tf.reshape(x, [x.shape[0], -1])
    for _ in range(2):
        x = tf.nn.dropout(tf.nn.relu(_dense(v, x, 4096)), 0.5)
    return _dense(v, x, 1001)


def _vgg(v: Variables, x: tf.Tensor, convolutions_in_stages: tuple[int, ...]) -> tf.Tensor:
    for channels, convolutions in zip((64, 128, 256, 512, 512), convolutions_in_stages, strict=True):
        for _ in range(convolutions):
            x = _biased(v, x, channels, 3)
        x = tf.nn.max_pool2d(x, 2, 2, "VALID")
    return _wide_layers(v, x)


def vgg16(v: Variables, images: tf.Tensor) -> tf.Tensor:
    return _vgg(v, images, (2, 2, 3, 3, 3))


def vgg19(v: Variables, images: tf.Tensor) -> tf.Tensor:
    return _vgg(v, images, (2, 2, 4, 4, 4))


def alexnet(v: Variables, images: tf.Tensor) -> tf.Tensor:
    x = _shrunk(_biased(v, images, 64, 11, 4, "VALID"))
    x = _shrunk(_biased(v, x, 192, 5))
    x = _biased(v, _biased(v, x, 384, 3), 384, 3)
    return _wide_layers(v, _shrunk(_biased(v, x, 256, 3)))


def trivial(v: Variables, images: tf.Tensor) -> tf.Tensor:
    x = tf.nn.relu(_dense(v, tf.reshape(images, [-1, 227 * 227 * 3]), 1))
    return _dense(v, tf.nn.relu(_dense(v, x, 4096)), 1001)


def _normalised(v: Variables, x: tf.Tensor) -> tf.Tensor:
    width = x.shape[-1]
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    gamma, beta = v.get(lambda: tf.ones(width)), v.get(lambda: tf.zeros(width))
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


def _split_heads(v: Variables, x: tf.Tensor, batch: int) -> tf.Tensor:
    """Project, and put heads of 64 before the length: [batch, heads, length, 64]."""
    width = x.shape[-1]
    return tf.transpose(tf.reshape(_dense(v, x, width), [batch, -1, width // 64, 64]), [0, 2, 1, 3])


def _bert(v: Variables, inputs: dict[str, tf.Tensor], layers: int, width: int) -> tf.Tensor:
    ids, mask, segments = (inputs[name] for name in ("input_ids", "input_mask", "segment_ids"))
    batch, length = ids.shape
    tables = [v.get(_weights([rows, width], 2500)) for rows in (30522, 2, 512)]
    x = tf.gather(tables[0], ids) + tf.gather(tables[1], segments) + tables[2][:length]
    x = tf.reshape(tf.nn.dropout(_normalised(v, x), 0.1), [batch * length, width])
    hidden = (1.0 - tf.cast(mask, tf.float32))[:, None, None, :] * -1e9
    for _ in range(layers):
        queries, keys, values = (_split_heads(v, x, batch) for _ in range(3))
        scores = tf.nn.softmax(tf.matmul(queries * 0.125, keys, transpose_b=True) + hidden)
        seen = tf.transpose(tf.matmul(tf.nn.dropout(scores, 0.1), values), [0, 2, 1, 3])
        seen = _dense(v, tf.reshape(seen, [batch * length, width]), width)
        x = _normalised(v, x + tf.nn.dropout(seen, 0.1))
        inner = _dense(v, tf.nn.gelu(_dense(v, x, 4 * width)), width)
        x = _normalised(v, x + tf.nn.dropout(inner, 0.1))
    pooled = tf.tanh(_dense(v, tf.reshape(x, [batch, length, width])[:, 0], width))
    return _dense(v, tf.nn.dropout(pooled, 0.1), 2)


def bert_tiny(v: Variables, inputs: dict[str, tf.Tensor]) -> tf.Tensor:
    return _bert(v, inputs, 2, 128)


def bert_base(v: Variables, inputs: dict[str, tf.Tensor]) -> tf.Tensor:
    return _bert(v, inputs, 12, 768)


def step(model: Callable[[Variables, Any], tf.Tensor], inputs: Any, labels: Any) -> Callable[[], tf.Tensor]:
    """A compiled training step of `model` on one batch, which lies in memory; returns the loss."""
    variables = Variables()
    inputs, labels = tf.nest.map_structure(tf.constant, inputs), tf.constant(labels)

    def train() -> tf.Tensor:
        variables.restart()
        with tf.GradientTape() as tape:
            logits = model(variables, inputs)
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(each) + DECAY * tf.add_n([tf.nn.l2_loss(w) for w in variables.trained])
        for w, gradient in zip(variables.trained, tape.gradient(loss, variables.trained), strict=True):
            w.assign_sub(RATE * gradient)
        return loss

    compiled: Callable[[], tf.Tensor] = tf.function(train, autograph=False)
    return compiled
