"""Synthetic batches, whose input costs nothing, a copy to the device, or a data loader outside TensorFlow's runtime."""

from __future__ import annotations

import atexit
from threading import Thread

import tensorflow as tf

from pytest_tfperf.training.input_spec import InputSpec
from pytest_tfperf.training.inputs import Batch

_BATCHES_AHEAD_EACH = 2


def device(spec: InputSpec) -> Batch:
    """A constant batch on every replica's device, as tensorpack's `--fake-location gpu`."""
    return spec.synthetic()


def host(spec: InputSpec) -> tf.data.Dataset:
    """A constant batch, kept by TensorFlow's runtime on the host and copied to the device in each step.

    As tensorpack's `--fake-location cpu`. On CPU devices there is nothing to copy.
    """
    with tf.device("CPU:0"):  # without this TensorFlow makes the tensors on the first GPU, where a copy of them stays
        return tf.data.Dataset.from_tensors(spec.synthetic()).repeat()


def python(spec: InputSpec) -> tf.data.Dataset:
    """Batches that a Python thread copies with NumPy and hands over through a queue.

    As tensorpack's `--fake-location python`: the pixels are drawn once, so that the hand-over is measured and not
    NumPy's random numbers. The queue holds 2 batches for each replica, in addition to those on the devices.
    """
    signature = tf.nest.flatten(spec.signature)
    with tf.device("CPU:0"):
        queue = tf.queue.FIFOQueue(
            _BATCHES_AHEAD_EACH * spec.replicas, [part.dtype for part in signature], [part.shape for part in signature]
        )
    # Not Dataset.from_generator: it takes 0.2 ms a batch, and at shutdown its threads and the interpreter wait for each
    # other (one exit in ten was seen to hang).
    atexit.register(queue.close, cancel_pending_enqueues=True)
    Thread(target=_produce, args=(queue, spec), name="tfperf-python-pipeline", daemon=True).start()
    return (
        tf.data.Dataset.from_tensors(0)
        .repeat()
        .map(lambda _: tf.nest.pack_sequence_as(spec.signature, tf.nest.flatten(queue.dequeue())))
    )


def _produce(queue: tf.queue.FIFOQueue, spec: InputSpec) -> None:
    batch = tf.nest.flatten(spec.synthetic())
    try:
        while True:
            with tf.device("CPU:0"):
                queue.enqueue([part.copy() for part in batch])
    except (tf.errors.CancelledError, tf.errors.AbortedError):
        return  # closed: the process ends
