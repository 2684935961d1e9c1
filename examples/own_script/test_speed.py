"""Gates four programs as they are; only what they print matters.

They run in pytest's rootdir: pytest examples/own_script --rootdir=examples/own_script
"""

import sys

import pytest

from pytest_tfperf import Command, Reads


@pytest.mark.cpu
def test_keras_fit(throughput, gpu_topology):
    """Keras' bar counts steps, so the test says how many examples one holds."""
    command = [sys.executable, "train_keras.py", "--epochs=100", "--batch-size=32"]
    program = Command(command, name="keras-fit", examples_per_step=32, reads=Reads(format="keras"))
    throughput.check(program, on=gpu_topology.take(1))


@pytest.mark.cpu
def test_tensorflow_loop(throughput, gpu_topology):
    """A pattern finds the rate of 'throughput: 1234.5 images/s'."""
    command = [sys.executable, "train_tensorflow.py"]
    reads = Reads(pattern=r"throughput: (?P<rate>[\d.]+) images/s")
    program = Command(command, name="tensorflow-loop", unit="images/s", reads=reads)
    throughput.check(program, on=gpu_topology.take(1))


@pytest.mark.cpu
def test_pytorch(throughput, gpu_topology):
    """The rate is a field of a JSON line; peak memory and the loss are gated, too."""
    pytest.importorskip("torch")
    command = [sys.executable, "train_pytorch.py"]
    on = gpu_topology.take(1)
    reads, also = Reads(field="images_per_sec"), ("peak_memory", "loss")
    throughput.check(Command(command, name="pytorch-loop", unit="images/s", reads=reads), on=on, also=also)


@pytest.mark.cpu
def test_jax(throughput, gpu_topology):
    """A pattern finds the time of a step and the loss; peak memory is gated, too."""
    pytest.importorskip("jax")
    command = [sys.executable, "train_jax.py"]
    reads = Reads(pattern=r"step \d+: (?P<milliseconds>[\d.]+) ms, loss (?P<loss>[\d.]+)")
    on, also = gpu_topology.take(1), ("peak_memory", "loss")
    program = Command(command, name="jax-loop", unit="images/s", examples_per_step=64, reads=reads)
    throughput.check(program, on=on, also=also)
