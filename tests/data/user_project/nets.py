"""A user's own module: models and input pipelines that are small, or slow, or broken on purpose. Runs in workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras  # noqa: TID251  # the user's module, which only workers import
import tensorflow as tf  # noqa: TID251

LONG = 3600


def tiny():
    return _dense(lambda images: images)


def _dense(layer):
    images = keras.Input((8, 8, 3))
    return keras.Model(images, keras.layers.Dense(10)(keras.layers.Flatten()(layer(images))))


class EachStep(keras.layers.Layer):
    """Calls a function in each step."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def call(self, images):
        same = tf.py_function(self._passed_on, [images], images.dtype)
        same.set_shape(images.shape)
        return same

    def _passed_on(self, images):
        self.function()
        return images


def compiled():
    """Two inputs by name, and an optimizer and a loss of its own."""
    ids, price = keras.Input((6,), dtype="int32", name="ids"), keras.Input((2,), name="price")
    both = keras.layers.Concatenate()([keras.layers.Flatten()(keras.layers.Embedding(20, 4)(ids)), price])
    model = keras.Model({"ids": ids, "price": price}, keras.layers.Dense(1)(both))
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
    return model


def wrong_labels(spec):
    """What `compiled` takes, with labels of another shape."""
    (inputs, _) = spec.synthetic()
    return inputs, tf.zeros((spec.batch_size, 7))


class Summing:
    """A training that is no Keras model."""

    unit = "sums"

    def __init__(self, batch_size, devices):
        self.examples_per_step = batch_size * len(devices)
        self.numbers = tf.Variable(tf.ones(1000))

    def run(self, steps):
        for _ in range(steps):
            self.numbers.assign(self.numbers * 0.5 + 0.5)


def summing(batch_size, devices):
    return Summing(batch_size, devices)


def sleeping():
    """50 steps a second at most, whatever else the machine does."""
    return _dense(EachStep(lambda: time.sleep(0.02)))


def even():
    """A step takes as long as the file `even` says: see `_by_the_file`."""
    return _by_the_file("even")


def uneven():
    """As `even`, from a file of its own."""
    return _by_the_file("uneven")


def _by_the_file(name):
    """A worker takes the file's first number and puts it last: by so many seconds each step moves the worker's clock.

    Make them tens of seconds: beside these, what a step of this small model really takes is nothing.
    """
    pace, *rest = Path(name).read_text().split()
    Path(name).write_text(" ".join([*rest, pace]))
    clock, played = time.perf_counter, [0.0]
    time.perf_counter = lambda: clock() + sum(played)

    def step():
        played[0] += float(pace)

    return _dense(EachStep(step))


def once():
    """A small model for the first worker; each later one is killed."""
    return tiny() if _is_first("once") else killed()


def once_in_memory():
    """A small model for the first worker; each later one runs out of memory."""
    return tiny() if _is_first("once_in_memory") else out_of_memory()


def _is_first(name):
    try:
        Path(name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def nan():
    return _dense(keras.layers.Rescaling(float("nan")))


def raising():
    raise ValueError("the layers do not fit")


def not_a_model():
    return "a model"


def out_of_memory():
    return bytearray(1 << 60)


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def killing_the_server():
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(LONG)


def hanging():
    time.sleep(LONG)


def with_a_child():
    subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({LONG})"])
    return tiny()


def listing_the_servers_files():
    """Writes what its parent, the fork server, holds open."""
    opened = Path(f"/proc/{os.getppid()}/fd")
    Path("servers_files").write_text("\n".join(str(entry.readlink()) for entry in opened.iterdir()))
    return tiny()


def telling_the_pids():
    """Writes the pids of its parent, the fork server, and of its worker."""
    Path("pids").write_text(f"{os.getppid()} {os.getpid()}")
    return tiny()


def synthetic(spec):
    return spec.synthetic()


def paced(spec):
    """20 batches a second."""
    return _throttled(spec, 0.05)


def buffered(spec):
    """10 batches a second, of which 16 may lie ready, as any real pipeline has them."""
    return _throttled(spec, 0.1).prefetch(16)


def in_files(spec):
    """40 batches at once, each half second: 80 batches a second."""

    def batches():
        batch = spec.synthetic()
        while True:
            time.sleep(0.5)
            yield from [batch] * 40

    return _dataset(spec, batches)


def deadly(spec):
    """100 batches, and then the end of its process; the windows of a short run don't take so many."""

    def batches():
        for _ in range(100):
            yield spec.synthetic()
        os.kill(os.getpid(), signal.SIGKILL)

    return _dataset(spec, batches)


def stalling(spec):
    """Three batches, a file `stalled`, and then nothing any more."""

    def batches():
        for _ in range(3):
            yield spec.synthetic()
        Path("stalled").touch()
        time.sleep(LONG)

    return _dataset(spec, batches)


def burning(spec):
    """Three batches, and then an error."""

    def batches():
        for _ in range(3):
            yield spec.synthetic()
        raise ValueError("disk on fire")

    return _dataset(spec, batches)


def raising_pipeline(spec):
    raise FileNotFoundError("/data/train-00000")


def _throttled(spec, seconds):
    """A batch each `seconds`; one that is late by more than half of that is not made up for."""

    def batches():
        batch = spec.synthetic()
        due = time.monotonic()
        while True:
            due = max(due, time.monotonic() - seconds / 2) + seconds
            time.sleep(max(0.0, due - time.monotonic()))
            yield batch

    return _dataset(spec, batches)


def _dataset(spec, batches):
    """As most pipelines are, mapped by a function of the user's: TensorFlow writes a temporary file for each."""
    images, labels = (tf.TensorSpec(part.shape, part.dtype) for part in spec.synthetic())
    dataset = tf.data.Dataset.from_generator(batches, output_signature=(images, labels))
    return dataset.map(lambda images, labels: (images, labels))
