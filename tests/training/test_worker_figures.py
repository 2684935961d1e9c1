"""The figures that a worker measures of itself."""

from __future__ import annotations

import gc

import tensorflow as tf

from pytest_tfperf.training.figures import WorkerFigures


def test_a_function_is_traced_once_for_each_kind_of_argument() -> None:
    function = tf.function(lambda x: x + 1)
    gc.freeze()  # as the worker does before its windows
    figures = WorkerFigures()
    before = figures.retraces()
    for argument in (tf.constant(1), tf.constant(2), tf.constant([1]), tf.constant([1.0])):
        function(argument)
    assert figures.retraces() - before == 3
