"""Gates four programs as they are, by their training steps. Nothing is read of what they print.

They run in pytest's rootdir: pytest examples/own_script --rootdir=examples/own_script
"""

import sys

import pytest

from pytest_tfperf import Command


@pytest.mark.cpu
def test_keras_fit(throughput, gpu_topology):
    """Keras' `fit` and PyTorch's optimizers are followed; nothing is added to these two programs."""
    command = [sys.executable, "train_keras.py", "--epochs=100", "--batch-size=32"]
    throughput.check(Command(command, name="keras-fit"), on=gpu_topology.take(1))


@pytest.mark.cpu
def test_pytorch(throughput, gpu_topology):
    """It has no DataLoader that counts its images, so the test says how many a step holds; memory is gated, too."""
    pytest.importorskip("torch")
    command = [sys.executable, "train_pytorch.py"]
    program = Command(command, name="pytorch-loop", unit="images/s", examples_per_step=64)
    throughput.check(program, on=gpu_topology.take(1), also=("peak_memory",))


@pytest.mark.cpu
def test_tensorflow_loop(throughput, gpu_topology):
    """A loop of TensorFlow's or JAX's own operations tells each step by one line, `sys.audit`, with its images."""
    command = [sys.executable, "train_tensorflow.py"]
    throughput.check(Command(command, name="tensorflow-loop", unit="images/s"), on=gpu_topology.take(1))


@pytest.mark.cpu
def test_jax(throughput, gpu_topology):
    """The line tells the loss, too, which is gated beside peak memory."""
    pytest.importorskip("jax")
    program = Command([sys.executable, "train_jax.py"], name="jax-loop", unit="images/s")
    throughput.check(program, on=gpu_topology.take(1), also=("peak_memory", "loss"))
