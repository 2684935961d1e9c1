"""tf_cnn_benchmarks' loss (softmax cross-entropy plus weight decay), and gradient descent in two operations a variable.

The step is `w - rate * (sum(g) / n + decay * w)`, with the gradients g of the cross-entropies of n replicas. It is
computed as `w - rate * decay * (sum(g / (n * decay)) + w)`. The division of g costs nothing, because it is done where
the backward pass starts, and weight decay becomes one addition for each weight. In each replica's loss it would be a
product and a sum on every replica: a tenth of a step of `trivial`. Momentum is linear in the gradients and takes the
same factor.

float16 can't represent gradients that were divided by the decay. They are multiplied by the loss scale instead, and the
update makes up the difference in float32, in one more operation.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from pytest_tfperf.core.workload import Optimizer, Precision
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.horovod import Horovod

LEARNING_RATE = 0.01
MOMENTUM = 0.9
WEIGHT_DECAY = 4e-5

LOSS_SCALE = 128.0
"""tf_cnn_benchmarks' fp16_loss_scale: many gradients are below 6e-8, where float16 ends, and times 128 they are not.

It is constant: if gradients overflow, the weights and then the loss are no longer finite.
"""

_UNSCALED = 1 / WEIGHT_DECAY


def loss_scale(precision: Precision) -> float | None:
    """The factor for the loss before the backward pass; None if the precision has float32's range."""
    return LOSS_SCALE if precision is Precision.MIXED_FLOAT16 else None


def cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Mean softmax cross-entropy: logits [..., classes], whole-number labels [...]; a float32 scalar."""
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.cast(logits, tf.float32))
    return tf.reduce_mean(each)


def weight_penalty(variables: Sequence[tf.Variable]) -> tf.Tensor:
    """4e-5 * sum(0.5 * |w|^2), a scalar; Keras' regularizers.L2 has no 0.5."""
    if not variables:
        return tf.constant(0.0)
    with tf.device(variables[0].device):
        return WEIGHT_DECAY * tf.add_n([_half_square_sum(v) for v in variables])


def _half_square_sum(variable: tf.Variable) -> tf.Tensor:
    # On the variable's device: parameters on the CPU would otherwise be copied to a GPU only for this.
    with tf.device(variable.device):
        return tf.nn.l2_loss(variable)


class GradientDescent:
    """Updates `variables` by the replicas' gradients; momentum's velocities are made in `strategy`'s scope.

    Args:
        strategy: in whose scope the variables were made.
        variables: what is trained.
        optimizer: plain descent, or tf_cnn_benchmarks' momentum (0.9, Nesterov).
        loss_scale: what the loss is multiplied by before the backward pass; None: nothing.
        independent: each replica's gradients update its own copy of the variables; nothing is exchanged, and n is 1.
        horovod: sums the gradients of all ranks.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        variables: Sequence[tf.Variable],
        optimizer: Optimizer,
        loss_scale: float | None = None,
        *,
        independent: bool = False,
        horovod: Horovod | None = None,
    ) -> None:
        self._independent = independent
        self._horovod = horovod
        self._variables = list(variables)
        self._scale = _UNSCALED if loss_scale is None else loss_scale
        with strategy.scope():
            self._velocities = [_velocity(strategy, v) for v in variables] if optimizer is Optimizer.MOMENTUM else []

    def gradients(self, tape: tf.GradientTape, loss: tf.Tensor) -> list[tf.Tensor]:
        """The gradients of one replica's cross-entropy as `step` takes them: scaled, and divided by n.

        Raises:
            WorkloadError: the loss does not depend on a variable.
        """
        replicas = 1 if self._independent else tf.distribute.get_replica_context().num_replicas_in_sync
        if self._horovod is not None:
            replicas *= self._horovod.size
        start = tf.constant(self._scale / replicas, loss.dtype)
        found = tape.gradient(loss, self._variables, output_gradients=start)
        if unused := [v.name for v, gradient in zip(self._variables, found, strict=True) if gradient is None]:
            raise WorkloadError(
                f"the model's logits do not depend on these of its trainable variables: {', '.join(unused)}; "
                "leave them out, or make them trainable=False"
            )
        # The gradient of an embedding has the rows of a batch only; weight decay changes all rows.
        return [tf.convert_to_tensor(gradient) for gradient in found]

    def step(self, scaled: Sequence[tf.Tensor]) -> None:
        """Take one step with the gradients of all replicas; call it in replica context.

        Replicas that are independent also meet here, while the step is traced: mirrored copies can only be updated in
        cross-replica context.
        """
        tf.distribute.get_replica_context().merge_call(self._update_all, args=(list(scaled),))

    def _update_all(self, strategy: tf.distribute.Strategy, scaled: Sequence[tf.Tensor]) -> None:
        totals = scaled
        if not self._independent:
            pairs = list(zip(scaled, self._variables, strict=True))
            totals = strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, pairs)
        if self._horovod is not None:
            totals = self._horovod.sum(totals)
        for i, (variable, total) in enumerate(zip(self._variables, totals, strict=True)):
            velocity = self._velocities[i : i + 1]
            strategy.extended.update(variable, self._update, args=(total, *velocity), group=True)

    def _update(self, variable: tf.Variable, total: tf.Tensor, velocity: tf.Variable | None = None) -> tf.Operation:
        if self._scale != _UNSCALED:
            total *= _UNSCALED / self._scale
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
    """A variable of the same shape, beside each copy of this one."""
    with strategy.extended.colocate_vars_with(variable):
        return tf.Variable(tf.zeros_like(variable), trainable=False, name=f"{variable.name.split(':')[0]}/velocity")
