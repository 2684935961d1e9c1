"""What one replica does in one step: tf_cnn_benchmarks' training, or the `train_step` of a compiled model."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import keras
import tensorflow as tf

from pytest_tfperf.core.workload import AllReduce, Optimizer, VariableUpdate, Workload
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.horovod import Horovod
from pytest_tfperf.training.inputs import Batch
from pytest_tfperf.training.optimizer import GradientDescent, cross_entropy, loss_scale, weight_penalty


class CrossEntropyStep:
    """Softmax cross-entropy, weight decay and gradient descent, as tf_cnn_benchmarks computes them.

    Args:
        strategy: made by `strategies.strategy_for`.
        model: from one structure of inputs to logits [..., classes].
        workload: what both were made for.
        horovod: exchanges the gradients of several ranks.
        independent: each replica updates its own copy of the variables.

    Attributes:
        is_independent: replicas exchange nothing.
        shared_devices: where `shared_loss` is computed; empty if there is none.
    """

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
        self._variables = [v.value for v in model.trainable_variables]
        # Independent replicas have weights of their own, and each adds its own penalty to its loss.
        shares = bool(self._variables) and not (workload.forward_only or independent)
        self.shared_devices = (self._variables[0].device,) if shares else ()
        self._descent = GradientDescent(
            strategy,
            self._variables,
            workload.optimizer,
            loss_scale(workload.precision),
            independent=independent,
            horovod=horovod,
        )
        self._compute = self._loss_and_gradients
        if workload.xla:
            # Not the update: replicas can't exchange gradients inside XLA. tf_cnn_benchmarks' xla_compile compiles the
            # same part.
            self._compute = tf.function(self._compute, jit_compile=True)

    def on_replica(self, batch: Batch) -> tf.Tensor:
        """Train on one replica's batch and return its loss, a float32 scalar; call it in replica context."""
        inputs, labels = batch
        loss, gradients = self._compute(inputs, labels)
        if gradients and self.is_independent:
            loss += weight_penalty(self._variables)
        if gradients:
            self._descent.step(gradients)
        return loss

    def shared_loss(self) -> tf.Tensor | None:
        """The weights' penalty, the part of the loss that all replicas share; call it before the update."""
        return weight_penalty(self._variables) if self.shared_devices else None

    def loss_of_window(self, loss: float) -> float | None:
        """What to report of a window whose last step had this loss."""
        return loss

    def begin_window(self) -> None:
        """Nothing: a loss is the last step's."""

    def _loss_and_gradients(self, inputs: Any, labels: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        if self._workload.forward_only:
            return cross_entropy(self._model(inputs, training=False), labels), []
        with tf.GradientTape() as tape:
            loss = cross_entropy(self._model(inputs, training=True), labels)
        return loss, self._descent.gradients(tape, loss)


class CompiledModelStep:
    """The `train_step` of a compiled model, with its own loss, optimizer and metrics; `test_step` with `forward_only`.

    It has the methods and attributes of `CrossEntropyStep`.

    Args:
        strategy: made by `strategies.strategy_for`.
        model: its `compile` has been called.
        workload: what both were made for.
        batch: a `tf.TensorSpec` for each array of a replica's batch.

    Raises:
        WorkloadError: it can't be compiled into a window, or the workload asks for what the model decides itself.
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
        # As `fit` does. What this can't build, such as a model without `call`, Keras makes in the first step; several
        # replicas of one rank could not run that step, because TensorFlow can't initialise their variables in it.
        with strategy.scope(), suppress(Exception):
            model._symbolic_build(data_batch=batch)
        self._model = model
        self._workload = workload
        self._has_loss = True
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
        self._has_loss = loss is not None
        return tf.constant(0.0) if loss is None else tf.cast(loss, tf.float32)

    def shared_loss(self) -> tf.Tensor | None:
        """None: Keras adds the penalties of its layers to each replica's loss."""
        return None

    def loss_of_window(self, loss: float) -> float | None:
        """The mean since the window began, as Keras' progress bar shows it; None if the model reports no loss."""
        return loss if self._has_loss else None

    def begin_window(self) -> None:
        """Forget what the metrics have summed up."""
        self._model.reset_metrics()


def require_own_training(workload: Workload) -> None:
    """Check that the workload asks for nothing that a compiled model decides itself.

    Raises:
        WorkloadError: names the option to leave out.
    """
    fault = ""
    if workload.optimizer is not Optimizer.SGD:
        fault = f"it trains with its own optimizer: leave optimizer={workload.optimizer.value!r} out"
    elif workload.variable_update is VariableUpdate.INDEPENDENT:
        fault = "Keras' optimizers always exchange gradients: choose another variable_update than 'independent'"
    elif workload.variable_update is VariableUpdate.HOROVOD:
        fault = "Horovod has no wrapper for Keras 3's optimizers: use variable_update='collective'"
    if fault:
        raise WorkloadError(f"model {workload.model!r} is compiled, and {fault}")
