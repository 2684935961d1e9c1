"""Layers that Keras lacks, or has in a slower form."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


class FusedBatchNormalization(keras.layers.Layer):  # type: ignore[misc]  # Keras ships no types
    """Batch normalisation over the channels of [batch, height, width, channels], as one fused operation.

    On TensorFlow, Keras 3's own layer computes mean, variance and scaling one by one. The fused operation also updates
    the moving statistics (an eighth of a small ResNet's operations otherwise), and grappler fuses a ReLU that follows.
    Parameters: channels for beta, and channels for gamma if `scale`. The moving statistics aren't trained; for several
    replicas see `strategies.variable_scope`. In each step they keep the fraction `momentum` of themselves.
    """

    def __init__(self, *, momentum: float = 0.9, epsilon: float = 1e-5, scale: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.epsilon = epsilon
        self.scale = scale

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Make gamma, beta and the two moving statistics, each [channels]."""
        # float32 under every precision: the fused operation requires it.
        common: dict[str, Any] = {"shape": (input_shape[-1],), "dtype": "float32", "autocast": False}
        self.gamma = self.add_weight(name="gamma", initializer="ones", **common) if self.scale else None
        self.beta = self.add_weight(name="beta", initializer="zeros", **common)
        self.moving_mean = self.add_weight(name="moving_mean", initializer="zeros", trainable=False, **common)
        self.moving_variance = self.add_weight(name="moving_variance", initializer="ones", trainable=False, **common)

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Normalise by the batch's statistics in training, by the moving ones otherwise."""
        mean, variance = self.moving_mean.value, self.moving_variance.value
        outputs, moved_mean, moved_variance = tf.compat.v1.nn.fused_batch_norm(
            inputs,
            tf.ones_like(self.beta.value) if self.gamma is None else self.gamma.value,
            self.beta.value,
            mean=mean,
            variance=variance,
            epsilon=self.epsilon,
            is_training=training,
            exponential_avg_factor=1.0 - self.momentum if training else 1.0,
        )
        if training:
            mean.assign(moved_mean)
            variance.assign(moved_variance)
        return outputs

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """The input's shape."""
        return input_shape
