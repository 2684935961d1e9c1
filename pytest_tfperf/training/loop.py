"""A window of training steps in one compiled call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from pytest_tfperf.core.workload import VariableUpdate, Workload
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.inputs import Batch, feed, naming_its_end
from pytest_tfperf.training.losses import cross_entropy, weight_penalty
from pytest_tfperf.training.optimizers import Descent
from pytest_tfperf.training.precision import loss_scale


class TrainingLoop:
    """Trains `model` (or with `forward_only` just runs it) under `strategy` on `inputs`, in windows of steps.

    Args:
        strategy: made by `strategies.strategy_for`.
        model: made by `loading.load_model` for that strategy.
        inputs: made by `loading.load_pipeline`: a dataset of endless batches, or one batch for every step.
        workload: what the three were made for.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: keras.Model,
        inputs: tf.data.Dataset | Batch,
        workload: Workload,
    ) -> None:
        self.images_per_step = workload.batch_size * strategy.num_replicas_in_sync
        self._strategy = strategy
        self._model = model
        self._workload = workload
        self._independent = workload.variable_update is VariableUpdate.INDEPENDENT
        self._variables = [v.value for v in model.trainable_variables]
        # Independent replicas have weights of their own, and each adds its own penalty to its loss.
        self._shares_penalty = bool(self._variables) and not (workload.forward_only or self._independent)
        self._descent = Descent(
            strategy,
            self._variables,
            workload.optimizer,
            loss_scale(workload.precision),
            alone=self._independent,
        )
        self._next_batch = feed(strategy, inputs)
        self.fetch: Callable[[], Any] | None = self._next_batch if isinstance(inputs, tf.data.Dataset) else None
        self._compute = self._loss_and_gradients
        if workload.xla:
            # Not the update: replicas can't meet inside XLA. tf_cnn_benchmarks' xla_compile takes the same part.
            self._compute = tf.function(self._compute, jit_compile=True)
        self._window = tf.function(self._steps, autograph=False)

    def run(self, steps: int) -> float:
        """Take `steps` steps and return the last one's loss, the mean over replicas.

        Returns when every device has finished its last update. The first call also traces and compiles; later ones,
        with any number of steps, only compute.

        Raises:
            WorkloadError: fewer than 1 step, or a dataset that ended.
        """
        if steps < 1:
            raise WorkloadError(f"steps={steps}: a window has at least 1 step")
        with naming_its_end(self._workload):
            loss = float(self._window(tf.constant(steps)))
        # The loss is known before the last update is done.
        tf.test.experimental.sync_devices()
        return loss

    def _steps(self, steps: tf.Tensor) -> tf.Tensor:
        # A loop over a tensor: one trace serves any number of steps. The last losses are carried where they lie, and
        # meet after the loop: to take their mean in each step is to wait for the host in each step.
        _, parts = tf.while_loop(
            lambda step, _: step < steps,
            lambda step, _: (step + 1, self._step()),
            (tf.constant(0), self._no_losses()),
            parallel_iterations=1,
        )
        losses = parts[: self._strategy.num_replicas_in_sync]
        return tf.add_n([tf.add_n(losses) / len(losses), *parts[len(losses) :]])

    def _step(self) -> list[tf.Tensor]:
        """The loss of each replica on its device, then the weights' penalty where replicas share it."""
        # It is of the weights before the update.
        penalty = [weight_penalty(self._variables)] if self._shares_penalty else []
        losses = self._strategy.run(self._replica_step, args=self._next_batch())
        return [*self._strategy.experimental_local_results(losses), *penalty]

    def _no_losses(self) -> list[tf.Tensor]:
        """What `_step` gives, before the first: a loop carries each value on the device of its first."""
        devices = list(self._strategy.extended.worker_devices)
        zeros = []
        for device in devices + ([self._variables[0].device] if self._shares_penalty else []):
            with tf.device(device):
                zeros.append(tf.constant(0.0))
        return zeros

    def _replica_step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        loss, gradients = self._compute(images, labels)
        if gradients and self._independent:
            loss += weight_penalty(self._variables)
        if gradients:
            self._descent.step(gradients)
        return loss

    def _loss_and_gradients(self, images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        if self._workload.forward_only:
            return cross_entropy(self._model(images, training=False), labels), []
        with tf.GradientTape() as tape:
            loss = cross_entropy(self._model(images, training=True), labels)
        return loss, self._descent.gradients(tape, loss)
