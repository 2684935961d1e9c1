"""Layers that Keras lacks, or has in a slower form."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


class FusedBatchNormalization(keras.layers.Layer):  # type: ignore[misc]  # Keras ships no types
    """Batch normalisation over the channels of [batch, height, width, channels], as one fused operation.

    Keras 3's own computes mean, variance and scaling one by one on TensorFlow. Parameters: channels for beta, and
    channels for gamma where `scale`. The moving statistics aren't trained; under a tf.distribute strategy each replica
    updates its own (`strategies.variable_scope`).

    Args:
        momentum: what the moving statistics keep of themselves in each step.
        epsilon: added to the variance.
        scale: whether there is a gamma.
    """

    def __init__(self, *, momentum: float = 0.9, epsilon: float = 1e-5, scale: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.epsilon = epsilon
        self.scale = scale

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Make gamma, beta and the two moving statistics, each [channels]."""
        shape = (input_shape[-1],)
        # float32 under every precision, as the fused operation wants them.
        own: dict[str, Any] = {"shape": shape, "dtype": "float32", "autocast": False}
        self.gamma = self.add_weight(name="gamma", initializer="ones", trainable=self.scale, **own)
        self.beta = self.add_weight(name="beta", initializer="zeros", **own)
        self.moving_mean = self.add_weight(name="moving_mean", initializer="zeros", trainable=False, **own)
        self.moving_variance = self.add_weight(name="moving_variance", initializer="ones", trainable=False, **own)

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Normalise by the batch's statistics in training, by the moving ones otherwise."""
        if not training:
            return self._fused(inputs, self.moving_mean.value, self.moving_variance.value, is_training=False)[0]
        outputs, mean, variance = self._fused(inputs, None, None, is_training=True)
        self._follow(self.moving_mean.value, mean)
        self._follow(self.moving_variance.value, variance)
        return outputs

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """The shape stays."""
        return input_shape

    def _fused(self, inputs: tf.Tensor, mean: Any, variance: Any, *, is_training: bool) -> Any:
        return tf.compat.v1.nn.fused_batch_norm(
            inputs,
            self.gamma.value,
            self.beta.value,
            mean=mean,
            variance=variance,
            epsilon=self.epsilon,
            is_training=is_training,
        )

    def _follow(self, moving: tf.Variable, batch: tf.Tensor) -> None:
        moving.assign_sub((moving - batch) * (1.0 - self.momentum))
