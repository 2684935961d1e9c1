"""Plain stochastic gradient descent, one fused operation for each variable."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

LEARNING_RATE = 0.01


def apply_gradients(gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable]) -> None:
    """Sum the gradients over the replicas and take one step along their mean. Call it in replica context."""
    tf.distribute.get_replica_context().merge_call(_descend, args=(list(gradients), list(variables)))


def _descend(
    strategy: tf.distribute.Strategy, gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable]
) -> None:
    pairs = list(zip(gradients, variables, strict=True))
    sums = strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, pairs)
    # The division of the mean is in the rate: no operation for each gradient.
    rate = LEARNING_RATE / strategy.num_replicas_in_sync
    for variable, total in zip(variables, sums, strict=True):
        strategy.extended.update(variable, _subtract, args=(total, rate), group=True)


def _subtract(variable: tf.Variable, gradient: tf.Tensor, rate: float) -> tf.Operation:
    return tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=rate, delta=gradient)
