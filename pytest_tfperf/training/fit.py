"""Keras' own trainer, `model.fit`, driven in windows of steps: what a Keras user gets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import keras
import tensorflow as tf

from pytest_tfperf.core.workload import Optimizer, Workload
from pytest_tfperf.errors import MeasurementError, WorkloadError
from pytest_tfperf.training.inputs import Batch, dataset_ended, placed
from pytest_tfperf.training.losses import WEIGHT_DECAY
from pytest_tfperf.training.optimizers import LEARNING_RATE, MOMENTUM
from pytest_tfperf.training.precision import loss_scale


class FitLoop:
    """Trains `model` under `strategy` on `inputs` by one endless `model.fit`, in windows of steps.

    `fit` is called once, in a thread that waits at the start of a step where no window is asked for; so nothing is
    compiled, and no iterator made, between windows. Keras' cost of each step is measured: its Python, its callbacks,
    its loss metric, its dispatch of one step at a time; once a window its loss is read and reset. Not measured: the
    ends of epochs, the progress bar. The wait hangs on `on_train_batch_begin`, because a callback at a batch's end
    would have Keras wait for the loss after each step, which `fit` by itself does not.

    Loss and optimizer are Keras' own, of the same formulas as `TrainingLoop`'s: sparse cross-entropy, an L2 regularizer
    on each trainable variable, SGD; with float16 the same constant loss scale, not the one that `fit` by itself would
    adapt step by step. (Keras 3.3, of TensorFlow 2.16, adds up the gradients of several replicas where later ones
    average them: the same work, another loss.)

    Args:
        as `TrainingLoop`; the model is compiled here.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: keras.Model,
        inputs: tf.data.Dataset | Batch,
        workload: Workload,
    ) -> None:
        self.images_per_step = workload.batch_size * strategy.num_replicas_in_sync
        self._model = model
        self._workload = workload
        self._asked: SimpleQueue[int] = SimpleQueue()
        self._answers: SimpleQueue[float | Exception] = SimpleQueue()
        self._window_ends = 0
        _compile(strategy, model, workload)
        batches = _batches(strategy, inputs)
        _read_from(batches, model)
        fetched = isinstance(inputs, tf.data.Dataset)
        self.fetch: Callable[[], Any] | None = (lambda: next(batches)) if fetched else None
        with tf.device("CPU:0"):  # a GPU's memory is for training
            self._form = _form(strategy, model)
        self._thread = threading.Thread(target=self._fit, name="tfperf-fit", daemon=True)

    def run(self, steps: int) -> float:
        """Have `fit` take `steps` steps and return their mean loss, as Keras' progress bar shows it.

        Returns when every device has finished its last update. The first call also traces and compiles.

        Raises:
            WorkloadError: fewer than 1 step, or a dataset that ended.
        """
        if steps < 1:
            raise WorkloadError(f"steps={steps}: a window has at least 1 step")
        if self._thread.ident is None:
            self._thread.start()
        elif not self._thread.is_alive():
            raise MeasurementError(f"{self._workload.id}: model.fit has ended, and trains no further")
        self._asked.put(steps)
        answer = self._answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _fit(self) -> None:
        """The thread: what `fit` raises is the answer to the window that it was raised in."""
        windows = keras.callbacks.LambdaCallback(on_train_batch_begin=self._before_step)
        try:
            self._model.fit(self._form, shuffle=False, verbose=0, callbacks=[windows])
            raise MeasurementError(f"{self._workload.id}: model.fit ended by itself")
        except Exception as error:
            self._answers.put(dataset_ended(self._workload, error) or error)

    def _before_step(self, step: int, _: Any = None, **__: Any) -> None:
        """Called by `fit` before each step, counted from 0: here a window ends, and the next begins."""
        if step < self._window_ends:
            return
        if step:
            loss = float(self._model.get_metrics_result()["loss"])
            # The loss is known before the last update is done.
            tf.test.experimental.sync_devices()
            self._answers.put(loss)
        steps = self._asked.get()
        self._model.reset_metrics()
        self._window_ends = step + steps


class _OverAndOver:
    """An iterator that is none of TensorFlow's, over one batch that lies on the devices."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._batch


def _compile(strategy: tf.distribute.Strategy, model: keras.Model, workload: Workload) -> None:
    for variable in model.trainable_variables:
        variable.regularizer = keras.regularizers.L2(WEIGHT_DECAY / 2)  # Keras' has no 0.5
    momentum = MOMENTUM if workload.optimizer is Optimizer.MOMENTUM else 0.0
    with strategy.scope():
        model.compile(
            optimizer=keras.optimizers.SGD(
                LEARNING_RATE,
                momentum=momentum,
                nesterov=momentum > 0,
                loss_scale_factor=loss_scale(workload.precision),
            ),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=workload.xla,  # never "auto", which depends on the model
            # Keras' own scaler checks each gradient and branches each step, which would be other work than our loop's;
            # and CentralStorageStrategy refuses its variables.
            auto_scale_loss=False,
        )


def _batches(strategy: tf.distribute.Strategy, inputs: tf.data.Dataset | Batch) -> Any:
    """An iterator that Keras' step takes a batch for each replica from."""
    if not isinstance(inputs, tf.data.Dataset):
        return _OverAndOver(placed(strategy, inputs))  # as a dataset they would be copied to the devices each time
    return iter(strategy.distribute_datasets_from_function(lambda _: inputs))


def _read_from(batches: Any, model: keras.Model) -> None:
    """Have the model's compiled step take its batches here, whatever iterator `fit` hands it.

    `fit` does no more with its iterator than that; but it makes two of them and draws a batch to build itself by, it
    splits batches that are meant for one replica, and not every version takes a dataset that is dealt out already.
    """
    model.make_train_function()
    step = model.train_function
    model.train_function = lambda _: step(batches)


def _form(strategy: tf.distribute.Strategy, model: keras.Model) -> tf.data.Dataset:
    """What `fit` builds itself by: one black image for each replica, without end."""
    replicas = strategy.num_replicas_in_sync
    images, labels = tf.zeros((replicas, *model.input_shape[1:])), tf.zeros(replicas, tf.int32)
    return tf.data.Dataset.from_tensors((images, labels)).repeat()
