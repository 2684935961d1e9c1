"""Multiply-adds of a model's forward pass, counted in the graph that TensorFlow makes of it."""

from __future__ import annotations

import math

import keras
import tensorflow as tf


def forward_multiply_adds(model: keras.Model) -> int:
    """Of one image, in convolutions and matrix products; other operations have so few that nobody counts them.

    Traces the model once. What lies inside loops and conditions is not counted.

    Raises:
        AttributeError: TensorFlow keeps a function that the model calls somewhere else than this version does.
    """
    forward = tf.function(lambda images: model(images, training=False), autograph=False)
    one_image = tf.TensorSpec((1, *model.input_shape[1:]), tf.float32)
    return _in_graph(forward.get_concrete_function(one_image).graph)


def _in_graph(graph: tf.Graph) -> int:
    return sum(map(_of, graph.get_operations()))


def _of(operation: tf.Operation) -> int:
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
        case "PartitionedCall" | "StatefulPartitionedCall":
            # Keras calls a function of its own for a convolution in groups. Its graph has no public way to it.
            return _in_graph(operation.graph._get_function(operation.get_attr("f").name).graph)
        case _:
            return 0
