"""Stochastic gradient descent with the loss's weight decay, in two operations for each variable.

The step is `w - rate * (sum(g) / n + decay * w)`, with the gradients g of n replicas' cross-entropies. Written as
`w - rate * decay * (sum(g / (n * decay)) + w)`, with g divided at no cost, where the backward pass starts, weight decay
is one addition a weight, done once. As a part of each replica's loss it would be a product and a sum on every replica:
a tenth of a step of `trivial`. Momentum is linear in the gradients and takes the same factor.

float16 can't hold gradients that were divided by the decay: they are multiplied with the loss scale instead, and the
difference is made up in float32, in one more operation.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from pytest_tfperf.core.workload import Optimizer
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.losses import WEIGHT_DECAY

LEARNING_RATE = 0.01
MOMENTUM = 0.9

_UNDECAYED = 1 / WEIGHT_DECAY


class Descent:
    """Updates `variables` by the replicas' gradients; makes what the optimizer remembers, in `strategy`'s scope.

    Args:
        strategy: whose scope the variables were made in.
        variables: what is trained.
        optimizer: plain descent, or tf_cnn_benchmarks' momentum (0.9, Nesterov's).
        loss_scale: what the loss is multiplied with before the backward pass; None: nothing has to be.
        alone: each replica's gradients update its own copy of the variables; nothing is exchanged, and n is 1.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        variables: Sequence[tf.Variable],
        optimizer: Optimizer,
        loss_scale: float | None = None,
        *,
        alone: bool = False,
    ) -> None:
        self._alone = alone
        self._variables = list(variables)
        self._scale = _UNDECAYED if loss_scale is None else loss_scale
        with strategy.scope():
            self._velocities = [_velocity(strategy, v) for v in variables] if optimizer is Optimizer.MOMENTUM else []

    def gradients(self, tape: tf.GradientTape, loss: tf.Tensor) -> list[tf.Tensor]:
        """One replica's gradients of its cross-entropy, as `step` wants them: scaled, and divided by n.

        Raises:
            WorkloadError: a variable that the loss doesn't depend on.
        """
        replicas = 1 if self._alone else tf.distribute.get_replica_context().num_replicas_in_sync
        start = tf.constant(self._scale / replicas, loss.dtype)
        found = tape.gradient(loss, self._variables, output_gradients=start)
        if idle := [v.name for v, gradient in zip(self._variables, found, strict=True) if gradient is None]:
            raise WorkloadError(
                f"the model's logits do not depend on these of its trainable variables: {', '.join(idle)}; "
                "leave them out, or make them trainable=False"
            )
        return list(found)

    def step(self, scaled: Sequence[tf.Tensor]) -> None:
        """Take one step with all replicas' `gradients`; call it in replica context, where all replicas meet.

        Replicas that are `alone` meet too, while the step is traced: mirrored copies can't be updated elsewhere.
        """
        tf.distribute.get_replica_context().merge_call(self._update_all, args=(list(scaled),))

    def _update_all(self, strategy: tf.distribute.Strategy, scaled: Sequence[tf.Tensor]) -> None:
        totals = scaled
        if not self._alone:
            pairs = list(zip(scaled, self._variables, strict=True))
            totals = strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, pairs)
        for i, (variable, total) in enumerate(zip(self._variables, totals, strict=True)):
            remembered = self._velocities[i : i + 1]
            strategy.extended.update(variable, self._update, args=(total, *remembered), group=True)

    def _update(self, variable: tf.Variable, total: tf.Tensor, velocity: tf.Variable | None = None) -> tf.Operation:
        if self._scale != _UNDECAYED:
            total *= _UNDECAYED / self._scale
        downhill, rate = total + variable, LEARNING_RATE * WEIGHT_DECAY
        if velocity is None:
            return tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=rate, delta=downhill)
        return tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=velocity.handle,
            lr=rate,
            grad=downhill,
            momentum=MOMENTUM,
            use_nesterov=True,
        )


def _velocity(strategy: tf.distribute.Strategy, variable: tf.Variable) -> tf.Variable:
    """A variable of the same form, beside each copy of this one."""
    with strategy.extended.colocate_vars_with(variable):
        return tf.Variable(tf.zeros_like(variable), trainable=False, name=f"{variable.name.split(':')[0]}/velocity")
