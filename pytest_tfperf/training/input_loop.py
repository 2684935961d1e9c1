"""A window that fetches batches and computes nothing: what an input pipeline gives by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.inputs import Alone, feed, naming_its_end


class InputLoop:
    """Fetches each replica's batches to its device, as a `TrainingLoop` would, in windows of steps.

    Args:
        strategy: made by `strategies.strategy_for`.
        source: made by `loading.load_pipeline`; or what a trainer has its batches from (`fetch`).
        workload: what both were made for.
    """

    def __init__(self, strategy: tf.distribute.Strategy, source: Alone | Callable[[], Any], workload: Workload) -> None:
        self.images_per_step = workload.batch_size * strategy.num_replicas_in_sync
        self._strategy = strategy
        self._workload = workload
        self._next_batch = feed(strategy, source.inputs) if isinstance(source, Alone) else source
        self.fetch: Callable[[], Any] | None = self._next_batch
        self._window = tf.function(self._steps, autograph=False)

    def run(self, steps: int) -> None:
        """Take `steps` batches for each replica; there is no loss. Returns when the last ones are on their devices.

        Raises:
            WorkloadError: fewer than 1 step, or a dataset that ended.
        """
        if steps < 1:
            raise WorkloadError(f"steps={steps}: a window has at least 1 step")
        with naming_its_end(self._workload):
            self._window(tf.constant(steps)).numpy()
        tf.test.experimental.sync_devices()

    def _steps(self, steps: tf.Tensor) -> tf.Tensor:
        _, sum_of_pixels = tf.while_loop(
            lambda step, _: step < steps,
            lambda step, total: (step + 1, total + self._a_pixel()),
            (tf.constant(0), tf.constant(0.0)),
            parallel_iterations=1,
        )
        return sum_of_pixels

    def _a_pixel(self) -> tf.Tensor:
        # One of each batch is looked at, so that no batch is left out as unused.
        pixels = self._strategy.run(lambda images, _: images[0, 0, 0, 0], args=self._next_batch())
        return self._strategy.reduce(tf.distribute.ReduceOp.SUM, pixels, axis=None)
