"""How many multiply-adds a model needs for an image, and how many a second a device reaches in matrix products."""

from __future__ import annotations

import itertools
import math
import time

import keras
import tensorflow as tf

from pytest_tfperf.training.batches import ends_of
from pytest_tfperf.training.loop import sync_devices

_WINDOWS = 5
_MIN_SECONDS = 0.01  # of one product
_SMALLEST_SIDE, _LARGEST_SIDE = 512, 8192


def forward_multiply_adds(model: keras.Model) -> int:
    """Multiply-adds of one example's forward pass, in convolutions and matrix products; other operations have very few.

    Traces the model once. Operations inside loops and conditions are not counted.

    Raises:
        AttributeError, ValueError: the model does not say what it takes, or this TensorFlow keeps the graphs of called
            functions elsewhere than expected.
    """
    forward = tf.function(lambda inputs: model(inputs, training=False), autograph=False)
    one = keras.tree.map_structure(lambda part: tf.TensorSpec((1, *part.shape[1:]), part.dtype), ends_of(model)[0])
    return _in_graph(forward.get_concrete_function(one).graph)


def _in_graph(graph: tf.Graph) -> int:
    return sum(map(_of_operation, graph.get_operations()))


def _of_operation(operation: tf.Operation) -> int:
    outputs = [tensor.shape for tensor in operation.outputs]
    match operation.type:
        case "Conv2D" | "Conv3D":  # filters: [height, width, inputs of a group, outputs]
            return int(math.prod(outputs[0]) * math.prod(operation.inputs[1].shape[:-1]))
        case "DepthwiseConv2dNative":  # filters: [height, width, channels, outputs of each]
            return int(math.prod(outputs[0]) * math.prod(operation.inputs[1].shape[:2]))
        case "MatMul":
            inner = operation.inputs[0].shape[0 if operation.get_attr("transpose_a") else 1]
            return int(math.prod(outputs[0]) * inner)
        case "BatchMatMulV2":
            inner = operation.inputs[0].shape[-2 if operation.get_attr("adj_x") else -1]
            return int(math.prod(outputs[0]) * inner)
        case "Einsum":  # a product for each combination of all indices
            words = operation.get_attr("equation").decode().partition("->")[0].split(",")
            shapes = [part.shape for part in operation.inputs]
            sizes = dict(zip("".join(words), itertools.chain.from_iterable(shapes), strict=True))
            return math.prod(sizes.values()) if len(words) > 1 else 0
        case "PartitionedCall" | "StatefulPartitionedCall":
            # Keras makes a function of a convolution in groups. TensorFlow has no public way to its graph.
            return _in_graph(operation.graph._get_function(operation.get_attr("f").name).graph)
        case _:
            return 0


def matrix_product_rate(device: str, dtype: str, seconds: float = 0.5) -> float:
    """Multiply-adds a second in products of square matrices of random numbers: the fastest of some windows.

    The fastest counts, because other processes can only slow a window down. The side doubles from 512 until one product
    takes 10 ms, or memory is short, or it is 8192; beyond that a larger product is not faster.

    Args:
        device: "GPU:0".
        dtype: of the factors: "float32", "float16", "bfloat16".
        seconds: about how long this may take.
    """
    ends = time.perf_counter() + seconds
    side = _SMALLEST_SIDE
    taken = _seconds_of_product(device, dtype, side, 1)
    while taken < _MIN_SECONDS and side < _LARGEST_SIDE:
        try:
            taken = _seconds_of_product(device, dtype, 2 * side, 1)
        except tf.errors.ResourceExhaustedError:
            break
        side *= 2
    products = max(1, round(seconds / 2 / _WINDOWS / taken))
    windows: list[float] = []
    while len(windows) < 2 or time.perf_counter() < ends:
        windows.append(_seconds_of_product(device, dtype, side, products))
    return float(side**3 / min(windows))


def _seconds_of_product(device: str, dtype: str, side: int, products: int) -> float:
    """Seconds of one product, after another in which the device's libraries choose their algorithm."""
    with tf.device(device):
        factor = tf.cast(tf.random.normal((side, side)), dtype)
        tf.linalg.matmul(factor, factor)
        sync_devices([device])
        started = time.perf_counter()
        for _ in range(products):
            tf.linalg.matmul(factor, factor)
        sync_devices([device])
    return (time.perf_counter() - started) / products
