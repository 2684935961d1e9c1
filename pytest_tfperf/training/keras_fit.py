"""Keras' own trainer, `model.fit`, driven in windows of steps: the throughput that a Keras user gets."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import nullcontext
from itertools import repeat
from queue import SimpleQueue
from typing import Any

import keras
import tensorflow as tf

from pytest_tfperf.core.workload import Optimizer, Workload
from pytest_tfperf.errors import MeasurementError, WorkloadError
from pytest_tfperf.training.inputs import Batch, count, naming_its_end, placed, spec_of_batch
from pytest_tfperf.training.loop import Loop
from pytest_tfperf.training.steps import LEARNING_RATE, MOMENTUM, WEIGHT_DECAY, loss_scale, require_own_training
from pytest_tfperf.training.strategies import is_plain_fit


class FitLoop(Loop):
    """Trains `model` under `strategy` on `inputs` by one endless `model.fit`, in windows of steps.

    `fit` is called once, in a thread that waits at the start of a step while no window is requested; so nothing is
    compiled, and no iterator made, between windows. All that Keras does in each step is measured: its Python, its
    callbacks, its loss metric, the dispatch of one step at a time. Not measured are the ends of epochs and the progress
    bar. Once a window the loss is read. The thread waits in `on_train_batch_begin`, because a callback at a
    batch's end would make Keras wait for the loss after each step, which a plain `fit` does not do.

    On one device `fit` trains without tf.distribute, as in a user's script.

    A compiled model trains as it was compiled. Any other gets Keras' loss and optimizer with the formulas of
    `CrossEntropyStep`: sparse cross-entropy, an L2 regularizer on each trainable variable, SGD. With float16 the loss
    scale is the same constant; `fit` would adapt its own in each step. (Keras 3.3, of TensorFlow 2.16, sums
    the gradients of several replicas where later versions average them: the same work, another loss.)

    Raises:
        WorkloadError: a compiled model that takes several steps at once, or decides what the workload sets; a model
            that `fit` can't build for several replicas.
    """

    def __init__(
        self, strategy: tf.distribute.Strategy, model: keras.Model, inputs: tf.data.Dataset | Batch, workload: Workload
    ) -> None:
        self.replicas: int = strategy.num_replicas_in_sync
        examples, self.unit = count(workload, inputs, model)
        self.examples_per_step = examples * self.replicas
        self._model = model
        self._workload = workload
        self._requests: SimpleQueue[int] = SimpleQueue()
        self._answers: SimpleQueue[float | Exception | None] = SimpleQueue()
        self._dtype_policy = keras.config.dtype_policy()
        self._window_ends = 0
        self._has_ended = False
        self._logs: Mapping[str, Any] = {}
        if model.compiled:
            _take_over(model, workload)
        else:
            _compile(strategy, model, workload)
        if not (is_plain := is_plain_fit(workload, strategy)):
            _build(strategy, model, workload, spec_of_batch(inputs))
        batches = _batches(strategy, inputs, is_plain=is_plain)
        self._read_from(batches)
        fetched = isinstance(inputs, tf.data.Dataset)
        self.fetch = (lambda: next(batches)) if fetched else None
        with tf.device("CPU:0"):  # a GPU's memory is for training
            self._template = _template(strategy, inputs)
        self._thread = threading.Thread(target=self._fit, name="tfperf-fit", daemon=True)

    def begin_window(self) -> None:
        """Reset the metrics' sums; the thread of `fit` waits meanwhile."""
        self._model.reset_metrics()

    def run(self, steps: int) -> float | None:
        """Have `fit` take `steps` steps and return the mean loss since `begin_window`, if there is one.

        Returns when every device has finished its last update. The first call also traces and compiles.

        Raises:
            WorkloadError: the dataset ended.
            MeasurementError: `fit` has ended before.
        """
        if self._has_ended:
            raise MeasurementError("model.fit has ended and trains no further")
        if self._thread.ident is None:
            self._thread.start()
        self._requests.put(steps)
        answer = self._answers.get()
        if isinstance(answer, Exception):
            self._has_ended = True  # its thread may live on for a moment, and answers nothing more
            raise answer
        return answer

    def _fit(self) -> None:
        """Run `fit` in the thread; its exception is the answer to the window in which it was raised."""
        keras.config.set_dtype_policy(self._dtype_policy)  # Keras has one for each thread, and may make layers here
        windows = keras.callbacks.LambdaCallback(on_train_batch_begin=self._before_step)
        try:
            with naming_its_end(self._workload):
                self._model.fit(self._template, shuffle=False, verbose=0, callbacks=[windows])
            raise MeasurementError("model.fit ended by itself")
        except Exception as error:
            self._answers.put(error)

    def _before_step(self, step: int, _: Any = None, **__: Any) -> None:
        """End a window and begin the next; `fit` calls this before each step, counted from 0."""
        if step < self._window_ends:
            return
        if step:
            loss = self._logs.get("loss")
            loss = None if loss is None else float(loss)
            # The loss is known before the last update is done.
            tf.test.experimental.sync_devices()
            self._answers.put(loss)
        steps = self._requests.get()
        self._window_ends = step + steps

    def _read_from(self, batches: Any) -> None:
        """Make the model's compiled step take its batches from `batches`, whatever iterator `fit` passes.

        Passing them to `fit` itself would not do: it makes two iterators and draws a batch to build the model by, it
        splits batches that are meant for one replica, and some versions reject a dataset that is distributed already.
        """
        self._model.make_train_function()
        step = self._model.train_function

        def take(_: Any) -> Mapping[str, Any]:
            self._logs = step(batches)
            return self._logs

        self._model.train_function = take


def _take_over(model: keras.Model, workload: Workload) -> None:
    """Prepare a model that its user compiled for `fit`."""
    require_own_training(workload)
    if model.steps_per_execution != 1:
        raise WorkloadError(
            f"model {workload.model!r} is compiled with steps_per_execution={model.steps_per_execution}, and the "
            "windows of trainer='keras' are counted in single steps: leave it out, or use trainer='loop'"
        )
    model.jit_compile = workload.xla


def _compile(strategy: tf.distribute.Strategy, model: keras.Model, workload: Workload) -> None:
    for variable in model.trainable_variables:
        variable.regularizer = keras.regularizers.L2(WEIGHT_DECAY / 2)  # Keras' has no 0.5
    momentum = MOMENTUM if workload.optimizer is Optimizer.MOMENTUM else 0.0
    with nullcontext() if is_plain_fit(workload, strategy) else strategy.scope():
        model.compile(
            optimizer=keras.optimizers.SGD(
                LEARNING_RATE,
                momentum=momentum,
                nesterov=momentum > 0,
                loss_scale_factor=loss_scale(workload.precision),
            ),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=workload.xla,  # never "auto", which depends on the model
            # Keras' own scaler checks each gradient and branches in each step, which our loop does not do, and
            # CentralStorageStrategy rejects its variables.
            auto_scale_loss=False,
        )


def _build(strategy: tf.distribute.Strategy, model: keras.Model, workload: Workload, batch: Any) -> None:
    """Make the variables of model, metrics and optimizer as `fit` does under a strategy, by a batch of their size."""
    try:
        with strategy.scope():
            model._symbolic_build(data_batch=batch)
    except tf.errors.OpError:
        raise  # not the model's fault, such as memory that is short
    except Exception as error:
        raise WorkloadError(
            f"model {workload.model!r}: trainer='keras' can't train it on several replicas: use trainer='loop', or one "
            "device",
            next_step="Under tf.distribute fit first builds a model by calling it on a batch's inputs, which raised "
            f"{type(error).__name__}: {error}",
        ) from error


def _batches(strategy: tf.distribute.Strategy, inputs: tf.data.Dataset | Batch, *, is_plain: bool) -> Any:
    """An iterator from which Keras' step takes a batch for each replica."""
    if not isinstance(inputs, tf.data.Dataset):
        return repeat(placed(strategy, inputs))  # stays on the devices; a tf.data iterator would copy it in each step
    if is_plain:
        return iter(inputs)
    return iter(strategy.distribute_datasets_from_function(lambda _: inputs))


def _template(strategy: tf.distribute.Strategy, inputs: tf.data.Dataset | Batch) -> tf.data.Dataset:
    """The dataset from which `fit` builds the model: an example of zeros for each replica, endlessly."""
    replicas = strategy.num_replicas_in_sync
    zeros = tf.nest.map_structure(lambda part: tf.zeros((replicas, *part.shape[1:]), part.dtype), spec_of_batch(inputs))
    return tf.data.Dataset.from_tensors(zeros).repeat()
