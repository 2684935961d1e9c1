"""Windows of steps in one compiled call: of training, or of fetching batches without training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import keras
import tensorflow as tf

from pytest_tfperf.core.baseline import is_unit
from pytest_tfperf.core.workload import VariableUpdate, Workload
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.horovod import Horovod
from pytest_tfperf.training.inputs import Batch, count, feed, naming_its_end, spec_of_batch
from pytest_tfperf.training.steps import CompiledModelStep, CrossEntropyStep


class Loop:
    """Runs a worker's windows: `TrainingLoop`, `FitLoop`, `InputLoop`, `OwnLoop` or `DeviceServer`."""

    examples_per_step: int  # of all replicas on all ranks, in units
    unit: str
    replicas: int  # on all ranks
    fetch: Callable[[], Any] | None = None  # a step's batches, one for each replica; None if they stay on the devices

    def begin_window(self) -> None:
        """Forget the loss of earlier windows, if there is one; called before each, and not timed."""

    def run(self, steps: int) -> float | None:
        """Take `steps` steps; returns a loss, if there is one, when every device has finished its last update.

        Raises:
            WorkloadError: the dataset ended.
        """
        raise NotImplementedError


class TrainingLoop(Loop):
    """Trains under `strategy` on `inputs`, in windows of steps; with `forward_only` it only runs the model.

    If the model is compiled, its own `train_step` is a step. `inputs` are a dataset of endless batches, or one batch
    for every step.

    Raises:
        WorkloadError: a compiled model that can't be trained in compiled windows; says what can be done.
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
        examples, self.unit = count(workload, inputs, model)
        self.examples_per_step = examples * self.replicas
        self._strategy = strategy
        self._model = model
        self._workload = workload
        self._horovod = horovod
        self._next_batch = feed(strategy, inputs)
        self.fetch = self._next_batch if isinstance(inputs, tf.data.Dataset) else None
        self._step: CrossEntropyStep | CompiledModelStep = (
            CompiledModelStep(strategy, model, workload, spec_of_batch(inputs))
            if model.compiled
            else self._cross_entropy(independent=False)
        )
        self._creates_variables = model.compiled
        self.window = tf.function(self._steps, autograph=False)  # a number of steps -> the last one's loss

    def without_exchange(self) -> TrainingLoop | None:
        """The same training, but each replica updates its own copy of the variables; None for a compiled model.

        Don't run this loop afterwards: the copies differ.
        """
        if self._model.compiled:
            return None
        alone = copy(self)
        alone._horovod = None
        alone._step = alone._cross_entropy(independent=True)
        alone.window = tf.function(alone._steps, autograph=False)
        return alone

    def begin_window(self) -> None:
        """Reset the sums of a compiled model's metrics; any other model's loss is that of the last step."""
        if self._model.compiled:
            self._model.reset_metrics()

    def run(self, steps: int) -> float | None:
        """Take `steps` steps and return the last one's loss, the mean over the replicas of all ranks.

        Returns when every device has finished its last update. The first call also traces and compiles; later ones,
        with any number of steps, only compute. Of a compiled model it is the mean loss since `begin_window`, or None
        if the model reports none.
        """
        with naming_its_end(self._workload):
            loss = self._first_run(steps) if self._creates_variables else float(self.window(tf.constant(steps)))
        sync_devices(self._strategy.extended.worker_devices)  # the loss is known before the last update is done
        return loss if self._step.has_loss else None

    def _cross_entropy(self, *, independent: bool) -> CrossEntropyStep:
        independent = independent or self._workload.variable_update is VariableUpdate.INDEPENDENT
        return CrossEntropyStep(
            self._strategy, self._model, self._workload, horovod=self._horovod, independent=independent
        )

    def _first_run(self, steps: int) -> float:
        """Take a compiled model's first steps: Keras creates variables in the first, and then traces again."""
        self._creates_variables = False
        first = float(self.window(tf.constant(1)))
        rest = float(self.window(tf.constant(steps - 1)))
        return rest if steps > 1 else first

    def _steps(self, steps: tf.Tensor) -> tf.Tensor:
        # A loop over a tensor: one trace serves any number of steps. Each loss stays on its device, and their mean is
        # taken after the loop: taking it in each step would make each step wait for the host.
        _, losses, shared = tf.while_loop(
            lambda step, *_: step < steps,
            lambda step, *_: (step + 1, *self._one_step()),
            (tf.constant(0), *self._no_losses()),
            parallel_iterations=1,
        )
        return tf.add_n([self._mean(losses), *shared])

    def _mean(self, losses: list[tf.Tensor]) -> tf.Tensor:
        """The mean over this process's replicas, and over all ranks that train one model."""
        mean = tf.add_n(losses) / len(losses)
        if self._step.is_independent:
            return mean
        if self._horovod is not None:
            return self._horovod.mean(mean)
        if self._strategy.num_replicas_in_sync > len(losses):
            each = self._strategy.experimental_distribute_values_from_function(lambda _: mean)
            return self._strategy.reduce(tf.distribute.ReduceOp.MEAN, each, axis=None)
        return mean

    def _one_step(self) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """The loss of each replica on its device, and the loss that they share, if there is one."""
        shared = self._step.shared_loss()  # of the weights before the update
        losses = self._strategy.run(self._step.on_replica, args=(self._next_batch(),))
        return list(self._strategy.experimental_local_results(losses)), [] if shared is None else [shared]

    def _no_losses(self) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Zeros for `_one_step`'s results before the first step: a loop keeps each value on the device of its first."""
        return [_zero_on(device) for device in self._strategy.extended.worker_devices], [
            _zero_on(device) for device in self._step.shared_devices
        ]


def _zero_on(device: str) -> tf.Tensor:
    with tf.device(device):
        return tf.constant(0.0)


class InputLoop(Loop):
    """Fetches each replica's batches to its device as a `TrainingLoop` does, and trains nothing.

    `fetch` is made by `inputs.feed`, or that of another loop.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        fetch: Callable[[], Any],
        workload: Workload,
        examples_per_step: int,
        unit: str,
    ) -> None:
        self.replicas: int = strategy.num_replicas_in_sync
        self.examples_per_step = examples_per_step
        self.unit = unit
        self.fetch: Callable[[], Any] = fetch
        self._strategy = strategy
        self._workload = workload
        self._window = tf.function(self._steps, autograph=False)

    def run(self, steps: int) -> None:
        """Take `steps` batches for each replica; there is no loss. Returns when the last ones are on their devices."""
        with naming_its_end(self._workload):
            self._window(tf.constant(steps)).numpy()
        sync_devices(self._strategy.extended.worker_devices)

    def _steps(self, steps: tf.Tensor) -> tf.Tensor:
        _, total = tf.while_loop(
            lambda step, _: step < steps,
            lambda step, total: (step + 1, total + self._one_number()),
            (tf.constant(0), tf.constant(0.0)),
            parallel_iterations=1,
        )
        return total

    def _one_number(self) -> tf.Tensor:
        # A number of each batch is used, so that TensorFlow does not drop the batches as unused.
        numbers = self._strategy.run(_first_number, args=(self.fetch(),))
        return tf.add_n(self._strategy.experimental_local_results(numbers))


def _first_number(batch: Batch) -> tf.Tensor:
    first = tf.reshape(tf.nest.flatten(batch)[0], [-1])[0]
    return tf.cast(tf.strings.length(first) if first.dtype == tf.string else first, tf.float32)


def sync_devices(devices: Sequence[str]) -> None:
    """Return when each of these devices of this process has finished its work.

    `tf.test.experimental.sync_devices` does the same, but fails where several processes train together.
    """
    for device in devices:
        with tf.device(device):
            tf.raw_ops.SyncDevice()


class OwnLoop(Loop):
    """Windows of a user's own training, which decides what its loss is of.

    `own` is the result of the user's function, built for `devices`. It has `run(steps)`, which takes that many steps,
    waits for them and returns the loss or None, and `examples_per_step` over all devices. It may have `unit`, the word
    for what is counted.

    Raises:
        WorkloadError: `own` lacks one of these, or its value is of the wrong kind.
    """

    def __init__(self, own: Any, devices: list[str]) -> None:
        examples = getattr(own, "examples_per_step", None)
        if not callable(getattr(own, "run", None)) or type(examples) is not int or examples < 1:
            returned = type(own).__name__ + ("" if examples is None else f" with examples_per_step={examples!r}")
            raise WorkloadError(
                f"it returned {returned}; trainer='own' needs an object with a method run(steps) and an attribute "
                "examples_per_step, a whole number above 0"
            )
        self.examples_per_step: int = examples
        self.unit = getattr(own, "unit", "examples")
        if not is_unit(self.unit):
            raise WorkloadError(f"unit={self.unit!r}: write the word for what is counted, as in 'tokens' for tokens/s")
        self.replicas = len(devices)
        self._own = own
        self._devices = devices

    def run(self, steps: int) -> float | None:
        """Have it take `steps` steps; returns its loss, when every device has finished its work."""
        loss = self._own.run(steps)
        sync_devices(self._devices)
        return None if loss is None else float(loss)
