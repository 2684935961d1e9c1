"""Windows of steps in one compiled call: of training, or of fetching batches without training."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Protocol

import keras
import tensorflow as tf

from pytest_tfperf.core.workload import VariableUpdate, Workload
from pytest_tfperf.training.horovod import Horovod
from pytest_tfperf.training.inputs import Batch, feed, naming_its_end
from pytest_tfperf.training.optimizer import GradientDescent, cross_entropy, loss_scale, weight_penalty


class Loop(Protocol):
    """What a worker runs its windows with: a `TrainingLoop`, an `InputLoop` or Keras' `fit`."""

    examples_per_step: int  # of all replicas on all ranks, in units
    unit: str
    replicas: int  # on all ranks

    @property
    def fetch(self) -> Callable[[], Any] | None:
        """Gives a step its batches, one for each replica; None if they stay on the devices."""

    def run(self, steps: int) -> float | None:
        """Take `steps` steps; returns a loss, if there is one, when every device has finished its last update."""


class TrainingLoop:
    """Trains `model` under `strategy` on `inputs`, in windows of steps; with `forward_only` it only runs the model.

    Args:
        strategy: made by `strategies.strategy_for`.
        model: made by `loading.load_model` for that strategy.
        inputs: made by `loading.load_pipeline`: a dataset of endless batches, or one batch for every step.
        workload: what the three were made for.
        horovod: exchanges the gradients of several ranks, of which this one trains under `strategy`.

    Attributes:
        window: the compiled window, from a number of steps to the last one's loss.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: keras.Model,
        inputs: tf.data.Dataset | Batch,
        workload: Workload,
        *,
        horovod: Horovod | None = None,
    ) -> None:
        self.replicas = strategy.num_replicas_in_sync * (1 if horovod is None else horovod.size)
        self.examples_per_step = workload.batch_size * self.replicas
        self.unit = "images"
        self._strategy = strategy
        self._model = model
        self._workload = workload
        self._variables = [v.value for v in model.trainable_variables]
        self._next_batch = feed(strategy, inputs)
        self.fetch: Callable[[], Any] | None = self._next_batch if isinstance(inputs, tf.data.Dataset) else None
        self._prepare(horovod, independent=workload.variable_update is VariableUpdate.INDEPENDENT)

    def without_exchange(self) -> TrainingLoop:
        """The same training, except that each replica updates its own copy of the variables.

        To be run after this loop, which would go on with copies that differ.
        """
        alone = copy(self)
        alone._prepare(None, independent=True)
        return alone

    def _prepare(self, horovod: Horovod | None, *, independent: bool) -> None:
        workload, strategy = self._workload, self._strategy
        self._independent = independent
        self._horovod = horovod
        # Independent replicas have weights of their own, and each adds its own penalty to its loss.
        self._shares_penalty = bool(self._variables) and not (workload.forward_only or independent)
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
        self.window = tf.function(self._steps, autograph=False)

    def run(self, steps: int) -> float:
        """Take `steps` steps and return the last one's loss, the mean over the replicas of all ranks.

        Returns when every device has finished its last update. The first call also traces and compiles; later ones,
        with any number of steps, only compute.

        Raises:
            WorkloadError: the dataset ended.
        """
        with naming_its_end(self._workload):
            loss = float(self.window(tf.constant(steps)))
        sync_devices(self._strategy)  # the loss is known before the last update is done
        return loss

    def _steps(self, steps: tf.Tensor) -> tf.Tensor:
        # A loop over a tensor: one trace serves any number of steps. Each loss stays on its device, and their mean is
        # taken after the loop: taking it in each step would make each step wait for the host.
        _, parts = tf.while_loop(
            lambda step, _: step < steps,
            lambda step, _: (step + 1, self._step()),
            (tf.constant(0), self._no_losses()),
            parallel_iterations=1,
        )
        replicas = len(self._strategy.extended.worker_devices)
        return tf.add_n([self._mean(parts[:replicas]), *parts[replicas:]])

    def _mean(self, losses: list[tf.Tensor]) -> tf.Tensor:
        """Over this process's replicas, and over all ranks where they train together."""
        mean = tf.add_n(losses) / len(losses)
        if self._independent:
            return mean
        if self._horovod is not None:
            return self._horovod.mean(mean)
        if self._strategy.num_replicas_in_sync > len(losses):
            each = self._strategy.experimental_distribute_values_from_function(lambda _: mean)
            return self._strategy.reduce(tf.distribute.ReduceOp.MEAN, each, axis=None)
        return mean

    def _step(self) -> list[tf.Tensor]:
        """The loss of each replica on its device, then the weights' penalty if replicas share it."""
        # The penalty is that of the weights before the update.
        penalty = [weight_penalty(self._variables)] if self._shares_penalty else []
        losses = self._strategy.run(self._replica_step, args=self._next_batch())
        return [*self._strategy.experimental_local_results(losses), *penalty]

    def _no_losses(self) -> list[tf.Tensor]:
        """Zeros for `_step`'s results before the first step: a loop keeps each value on the device of its first."""
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


class InputLoop:
    """Fetches each replica's batches to its device as a `TrainingLoop` does, and trains nothing.

    Args:
        strategy: made by `strategies.strategy_for`.
        fetch: made by `inputs.feed`, or the `fetch` of another loop.
        workload: what both were made for.
        examples_per_step: of all ranks; None: there is only this one.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        fetch: Callable[[], Any],
        workload: Workload,
        examples_per_step: int | None = None,
    ) -> None:
        self.replicas: int = strategy.num_replicas_in_sync
        self.examples_per_step = examples_per_step or workload.batch_size * self.replicas
        self.unit = "images"
        self.fetch: Callable[[], Any] | None = fetch
        self._strategy = strategy
        self._workload = workload
        self._next_batch = fetch
        self._window = tf.function(self._steps, autograph=False)

    def run(self, steps: int) -> None:
        """Take `steps` batches for each replica; there is no loss. Returns when the last ones are on their devices.

        Raises:
            WorkloadError: the dataset ended.
        """
        with naming_its_end(self._workload):
            self._window(tf.constant(steps)).numpy()
        sync_devices(self._strategy)

    def _steps(self, steps: tf.Tensor) -> tf.Tensor:
        _, sum_of_pixels = tf.while_loop(
            lambda step, _: step < steps,
            lambda step, total: (step + 1, total + self._one_pixel()),
            (tf.constant(0), tf.constant(0.0)),
            parallel_iterations=1,
        )
        return sum_of_pixels

    def _one_pixel(self) -> tf.Tensor:
        # A pixel of each batch is used, so that TensorFlow does not drop the batches as unused.
        pixels = self._strategy.run(lambda images, _: images[0, 0, 0, 0], args=self._next_batch())
        return tf.add_n(self._strategy.experimental_local_results(pixels))


def sync_devices(strategy: tf.distribute.Strategy) -> None:
    """Return when each of this process's devices has done what it was given.

    `tf.test.experimental.sync_devices` does the same, but fails where several processes train together.
    """
    for device in strategy.extended.worker_devices:
        with tf.device(device):
            tf.raw_ops.SyncDevice()
