"""Which trainer runs a workload's windows: ours, or Keras' own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import keras
import tensorflow as tf

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.workload import Trainer, Workload
from pytest_tfperf.training.fit import FitLoop
from pytest_tfperf.training.input_loop import InputLoop
from pytest_tfperf.training.inputs import Alone, Batch
from pytest_tfperf.training.loop import TrainingLoop


class Windows(Protocol):
    """What a worker trains with; see `TrainingLoop`."""

    images_per_step: int

    @property
    def fetch(self) -> Callable[[], Any] | None:
        """Gives a step its batches, one for each replica, in a compiled call; None where they lie on the devices."""

    def run(self, steps: int) -> float | None:
        """Take `steps` steps; returns a loss, where there is one, when every device has finished its last update."""


def trainer_for(
    strategy: tf.distribute.Strategy, model: keras.Model, inputs: tf.data.Dataset | Batch | Alone, workload: Workload
) -> Windows:
    """The workload's trainer; arguments and errors are its class's. A pipeline that is measured alone has none.

    Raises:
        WorkloadError: what says how to train, where nothing is trained.
    """
    if isinstance(inputs, Alone):
        catalogue.require_nothing_to_train(workload)  # what a user's own pipeline returns is known only now
        return InputLoop(strategy, inputs, workload)
    if workload.trainer is Trainer.KERAS:
        return FitLoop(strategy, model, inputs, workload)
    return TrainingLoop(strategy, model, inputs, workload)
