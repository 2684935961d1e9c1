"""The loss of tf_cnn_benchmarks: mean softmax cross-entropy, and weight decay over all trainable variables."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

WEIGHT_DECAY = 4e-5


def cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Mean over the batch: logits [batch, classes] and labels [batch] (integers) to a float32 scalar."""
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.cast(logits, tf.float32))
    return tf.reduce_mean(each)


def weight_penalty(variables: Sequence[tf.Variable]) -> tf.Tensor:
    """4e-5 * sum(0.5 * |w|^2), a scalar; Keras' regularizers.L2 has no 0.5."""
    if not variables:
        return tf.constant(0.0)
    with tf.device(variables[0].device):
        return WEIGHT_DECAY * tf.add_n([_half_square_sum(v) for v in variables])


def _half_square_sum(variable: tf.Variable) -> tf.Tensor:
    # Where the variable lies: parameters on the CPU would else be copied to a GPU for this alone.
    with tf.device(variable.device):
        return tf.nn.l2_loss(variable)
