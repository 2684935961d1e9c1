"""A window of training steps in one compiled call."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from pytest_tfperf.training.inputs import Batch, feed
from pytest_tfperf.training.losses import cross_entropy, weight_penalty
from pytest_tfperf.training.optimizers import apply_gradients
from pytest_tfperf.workload import Workload


class TrainingLoop:
    """Trains `model` under `strategy` on `inputs`; the first `run` traces and compiles, later ones only compute.

    Args:
        strategy: made by `strategies.strategy_for`.
        model: built in that strategy's `variable_scope`.
        inputs: a dataset of endless batches, or one batch for every step.
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
        self._variables = [v.value for v in model.trainable_variables]
        self._next_batch = feed(strategy, inputs)
        self._window = tf.function(self._steps, autograph=False)

    def run(self, steps: int) -> float:
        """Take `steps` steps and return the last one's loss, the mean over replicas.

        Returns when every device has finished its last update.
        """
        loss = float(self._window(tf.constant(steps)))
        # The loss is known before the last update is done.
        tf.test.experimental.sync_devices()
        return loss

    def _steps(self, steps: tf.Tensor) -> tf.Tensor:
        # A loop over a tensor: one trace serves any number of steps.
        _, loss = tf.while_loop(
            lambda step, _: step < steps,
            lambda step, _: (step + 1, self._step()),
            (tf.constant(0), tf.constant(float("nan"))),
            parallel_iterations=1,
        )
        return loss

    def _step(self) -> tf.Tensor:
        losses = self._strategy.run(self._replica_step, args=self._next_batch())
        return self._strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    def _replica_step(self, images: Any, labels: Any) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = cross_entropy(self._model(images, training=True), labels) + weight_penalty(self._variables)
        apply_gradients(tape.gradient(loss, self._variables), self._variables)
        return loss
