"""A replica's step: tf_cnn_benchmarks' training, or the `train_step` of a compiled model.

tf_cnn_benchmarks' is gradient descent on softmax cross-entropy plus weight decay, in two operations a variable. The
step is `w - rate * (sum(g) / n + decay * w)`, with the gradients g of the cross-entropies of n replicas. It is
computed as `w - rate * decay * (sum(g / (n * decay)) + w)`. The division of g costs nothing, because it is done where
the backward pass starts, and weight decay becomes one addition for each weight. In each replica's loss it would be a
product and a sum on every replica: a tenth of a step of `trivial`. Momentum is linear in the gradients and takes the
same factor.

float16 can't represent gradients that were divided by the decay. They are multiplied by the loss scale instead, and the
update makes up the difference in float32, in one more operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import keras
import tensorflow as tf

from pytest_tfperf.core.workload import AllReduce, Optimizer, Precision, VariableUpdate, Workload
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.horovod import Horovod
from pytest_tfperf.training.inputs import Batch

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
    """4e-5 * sum(0.5 * |w|^2) of at least one variable, a scalar; Keras' regularizers.L2 has no 0.5."""
    halves = []
    for variable in variables:
        with tf.device(variable.device):  # parameters on the CPU would otherwise be copied to a GPU only for this
            halves.append(tf.nn.l2_loss(variable))
    with tf.device(variables[0].device):
        return WEIGHT_DECAY * tf.add_n(halves)


class CrossEntropyStep:
    """Softmax cross-entropy, weight decay and gradient descent, as tf_cnn_benchmarks computes them.

    The model is from one structure of inputs to logits [..., classes]. If replicas are independent, each one's
    gradients update its own copy of the variables; nothing is exchanged, and n is 1. `shared_devices` are those on
    which `shared_loss` is computed, none if there is no such loss.
    """

    has_loss = True

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: keras.Model,
        workload: Workload,
        *,
        horovod: Horovod | None,
        independent: bool,
    ) -> None:
        self.is_independent = independent
        self._model = model
        self._workload = workload
        self._horovod = horovod
        self._variables = [v.value for v in model.trainable_variables]
        # Independent replicas have weights of their own, and each adds its own penalty to its loss.
        shares = bool(self._variables) and not (workload.forward_only or independent)
        self.shared_devices = (self._variables[0].device,) if shares else ()
        self._scale = loss_scale(workload.precision) or _UNSCALED
        has_momentum = workload.optimizer is Optimizer.MOMENTUM
        with strategy.scope():
            self._velocities = [_velocity(strategy, v) for v in self._variables] if has_momentum else []
        self._compute = self._loss_and_gradients
        if workload.xla:
            # Not the update: replicas can't exchange gradients inside XLA. tf_cnn_benchmarks' xla_compile compiles the
            # same part.
            self._compute = tf.function(self._compute, jit_compile=True)

    def on_replica(self, batch: Batch) -> tf.Tensor:
        """Train on one replica's batch and return its loss, a float32 scalar; call it in replica context.

        Replicas that are independent also meet here, while the step is traced: mirrored copies can only be updated in
        cross-replica context.
        """
        inputs, labels = batch
        loss, gradients = self._compute(inputs, labels)
        if gradients and self.is_independent:
            loss += weight_penalty(self._variables)
        if gradients:
            tf.distribute.get_replica_context().merge_call(self._update_all, args=(list(gradients),))
        return loss

    def shared_loss(self) -> tf.Tensor | None:
        """The weights' penalty, the part of the loss that all replicas share; call it before the update."""
        return weight_penalty(self._variables) if self.shared_devices else None

    def _loss_and_gradients(self, inputs: Any, labels: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        if self._workload.forward_only:
            return cross_entropy(self._model(inputs, training=False), labels), []
        with tf.GradientTape() as tape:
            loss = cross_entropy(self._model(inputs, training=True), labels)
        return loss, self._gradients(tape, loss)

    def _gradients(self, tape: tf.GradientTape, loss: tf.Tensor) -> list[tf.Tensor]:
        """The gradients of one replica's cross-entropy, scaled, and divided by n."""
        replicas = 1 if self.is_independent else tf.distribute.get_replica_context().num_replicas_in_sync
        if self._horovod is not None:
            replicas *= self._horovod.size
        start = tf.constant(self._scale / replicas, loss.dtype)
        gradients = tape.gradient(loss, self._variables, output_gradients=start)
        if unused := [v.name for v, gradient in zip(self._variables, gradients, strict=True) if gradient is None]:
            raise WorkloadError(
                f"the model's logits do not depend on these of its trainable variables: {', '.join(unused)}; "
                "leave them out, or make them trainable=False"
            )
        # The gradient of an embedding has the rows of a batch only; weight decay changes all rows.
        return [tf.convert_to_tensor(gradient) for gradient in gradients]

    def _update_all(self, strategy: tf.distribute.Strategy, scaled: Sequence[tf.Tensor]) -> None:
        totals = scaled
        if not self.is_independent:
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


class CompiledModelStep:
    """The `train_step` of a compiled model, with its own loss, optimizer and metrics; `test_step` with `forward_only`.

    It has the methods and attributes of `CrossEntropyStep`; `batch` has a `tf.TensorSpec` for each array of a
    replica's batch.

    Raises:
        WorkloadError: it can't be compiled into a window, or the workload sets something that the model decides.
    """

    is_independent = False
    shared_devices = ()

    def __init__(self, strategy: tf.distribute.Strategy, model: keras.Model, workload: Workload, batch: Any) -> None:
        require_own_training(workload)
        if model.run_eagerly:
            raise WorkloadError(
                f"model {workload.model!r} is compiled with run_eagerly=True, so its steps can't be compiled into one "
                "call: use trainer='keras', or leave run_eagerly out"
            )
        exchanges = strategy.num_replicas_in_sync > 1 and not workload.forward_only
        # Inside XLA MirroredStrategy ignores its own exchange, and takes NCCL if all devices are GPUs.
        if workload.xla and exchanges and workload.all_reduce is not AllReduce.NCCL:
            raise WorkloadError(
                f"model {workload.model!r} is compiled, so XLA would also compile its update, and there replicas "
                "exchange gradients by NCCL only: use all_reduce='nccl' on GPUs, return the model without compiling "
                "it, or leave xla out"
            )
        # As `fit` does. If this fails, as without a `call`, Keras makes the variables in the first step, which several
        # replicas of a rank could not run, because TensorFlow can't initialise their variables in it.
        with strategy.scope(), suppress(Exception):
            model._symbolic_build(data_batch=batch)
        self._workload = workload
        self.has_loss = True
        self._run = model.test_step if workload.forward_only else model.train_step
        if workload.xla:
            self._run = tf.function(self._run, jit_compile=True)

    def on_replica(self, batch: Batch) -> tf.Tensor:
        """Train on one replica's batch and return its loss, 0 if the model reports none."""
        try:
            loss = self._run(batch).get("loss")
        except (AttributeError, NotImplementedError, TypeError) as error:
            if isinstance(error, tf.errors.OperatorNotAllowedInGraphError) or "ymbolic" in str(error):
                raise WorkloadError(
                    f"model {self._workload.model!r}: its train_step can't be compiled into one call "
                    f"({type(error).__name__}: {error}): compile the model with run_eagerly=True and use "
                    "trainer='keras'"
                ) from error
            raise
        self.has_loss = loss is not None
        return tf.constant(0.0) if loss is None else tf.cast(loss, tf.float32)

    def shared_loss(self) -> tf.Tensor | None:
        """None: Keras adds the penalties of its layers to each replica's loss."""
        return None


def require_own_training(workload: Workload) -> None:
    """Raise a WorkloadError if an option sets what a compiled model decides itself; it names the option."""
    fault = ""
    if workload.optimizer is not Optimizer.SGD:
        fault = f"it trains with its own optimizer: leave optimizer={workload.optimizer.value!r} out"
    elif workload.variable_update is VariableUpdate.INDEPENDENT:
        fault = "Keras' optimizers always exchange gradients: choose another variable_update than 'independent'"
    elif workload.variable_update is VariableUpdate.HOROVOD:
        fault = "Horovod has no wrapper for Keras 3's optimizers: use variable_update='collective'"
    if fault:
        raise WorkloadError(f"model {workload.model!r} is compiled, and {fault}")
