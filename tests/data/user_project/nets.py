"""A user's own module: models and input pipelines that are small, or slow, or broken on purpose. Runs in workers."""

from __future__ import annotations

import mmap
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras  # noqa: TID251  # the user's module, which only workers import
import tensorflow as tf  # noqa: TID251

from pytest_tfperf.training import worker

LONG = 3600


def tiny():
    images = keras.Input((8, 8, 3))
    return keras.Model(images, keras.layers.Dense(10)(keras.layers.Flatten()(images)))


class Sleep(keras.layers.Layer):
    """So many seconds a step, whatever else the machine does."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def call(self, images):
        slept = tf.py_function(self._sleep, [images], images.dtype)
        slept.set_shape(images.shape)
        return slept

    def _sleep(self, images):
        time.sleep(self.seconds)
        return images


def sleeping():
    """50 steps a second at most."""
    images = keras.Input((8, 8, 3))
    return keras.Model(images, keras.layers.Dense(10)(keras.layers.Flatten()(Sleep(0.02)(images))))


def even():
    """Small, by a clock that is played: see `_by_the_file`."""
    return _by_the_file("even")


def uneven():
    """As `even`, from a file of its own."""
    return _by_the_file("uneven")


def _by_the_file(name):
    """Each worker takes the file's first number and puts it last: so many seconds a step, it says, its windows took."""
    pace, *rest = Path(name).read_text().split()
    Path(name).write_text(" ".join([*rest, pace]))
    with Path("workers").open("a") as file:
        print(os.getpid(), name, file=file)
    timed = worker._window
    worker._window = lambda loop, steps, *more: timed(loop, steps, *more) | {"seconds": steps * float(pace)}
    return tiny()


def once():
    """A small model for the first worker; each later one is killed."""
    if Path("once").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    Path("once").touch()
    return tiny()


def nan():
    images = keras.Input((8, 8, 3))
    scaled = keras.layers.Rescaling(float("nan"))(images)
    return keras.Model(images, keras.layers.Dense(10)(keras.layers.Flatten()(scaled)))


def raising():
    raise ValueError("the layers do not fit")


def not_a_model():
    return "a model"


def out_of_memory():
    return bytearray(1 << 60)


def room_for_20(spec):
    """Takes 64 MiB an image from a process that may have 20 times that beside what it has already, and a bit."""
    image = 64 << 20
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 20 * image + image // 2, limits[1]))
    try:
        mmap.mmap(-1, spec.batch_size * image).close()  # TensorFlow's threads would not survive the limit
    except OSError as error:
        raise MemoryError(str(error)) from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    return spec.synthetic()


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
