"""Plain stochastic gradient descent with the loss's weight decay, in two operations for each variable.

The step is `w - rate * (sum(g) / n + decay * w)`, with the gradients g of n replicas' cross-entropies. Written as
`w - rate * decay * (sum(g / (n * decay)) + w)`, with g divided at no cost, where the backward pass starts, weight decay
is one addition a weight, done once. As a part of each replica's loss it would be a product and a sum on every replica:
a tenth of a step of `trivial`.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.losses import WEIGHT_DECAY

LEARNING_RATE = 0.01


def gradients(
    tape: tf.GradientTape, loss: tf.Tensor, variables: Sequence[tf.Variable], replicas: int
) -> list[tf.Tensor]:
    """One replica's gradients of its cross-entropy, as `descend` wants them: divided by n * decay.

    n is `replicas`: how many replicas' gradients are summed; 1 for `descend_alone`.

    Raises:
        WorkloadError: a variable that the loss doesn't depend on.
    """
    start = tf.constant(1 / (replicas * WEIGHT_DECAY), loss.dtype)
    found = tape.gradient(loss, variables, output_gradients=start)
    if idle := [v.name for v, gradient in zip(variables, found, strict=True) if gradient is None]:
        raise WorkloadError(
            f"the model's logits do not depend on these of its trainable variables: {', '.join(idle)}; "
            "leave them out, or make them trainable=False"
        )
    return list(found)


def descend(scaled: Sequence[tf.Tensor], variables: Sequence[tf.Variable]) -> None:
    """Take one step with all replicas' `gradients`; call it in replica context, where all replicas meet."""
    tf.distribute.get_replica_context().merge_call(_update_all, args=(list(scaled), list(variables)))


def descend_alone(scaled: Sequence[tf.Tensor], variables: Sequence[tf.Variable]) -> None:
    """Take one step with this replica's `gradients` on its own copy of the variables; nothing is exchanged."""
    # Replicas meet while the step is traced, because only there may mirrored copies be updated; not when it runs.
    tf.distribute.get_replica_context().merge_call(_update_each, args=(list(scaled), list(variables)))


def _update_all(
    strategy: tf.distribute.Strategy, scaled: Sequence[tf.Tensor], variables: Sequence[tf.Variable]
) -> None:
    pairs = list(zip(scaled, variables, strict=True))
    totals = strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, pairs)
    _update_each(strategy, totals, variables)


def _update_each(
    strategy: tf.distribute.Strategy, totals: Sequence[tf.Tensor], variables: Sequence[tf.Variable]
) -> None:
    for variable, total in zip(variables, totals, strict=True):
        strategy.extended.update(variable, _update, args=(total,), group=True)


def _update(variable: tf.Variable, total: tf.Tensor) -> tf.Operation:
    return tf.raw_ops.ResourceApplyGradientDescent(
        var=variable.handle, alpha=LEARNING_RATE * WEIGHT_DECAY, delta=total + variable
    )
