"""What numbers a worker computes with: Keras' dtype policy, the scale of float16's gradients, TF32."""

from __future__ import annotations

import os
from collections.abc import Mapping

import keras
import tensorflow as tf

from pytest_tfperf.core.workload import Precision, Workload

LOSS_SCALE = 128.0
"""float16 ends at 6e-8, where many gradients lie; times 128, tf_cnn_benchmarks' fp16_loss_scale, they survive it.

It stays the same throughout: gradients that overflow spoil the weights, and the loss is not finite from then on.
"""


def set_precision(workload: Workload) -> None:
    """Set what this process computes with; must come before the model is built, whose layers ask once.

    The policy holds for users' models, too. Variables are float32 under every policy.
    """
    keras.config.set_dtype_policy(workload.precision.value)
    tf.config.experimental.enable_tensor_float_32_execution(workload.tf32)


def loss_scale(precision: Precision) -> float | None:
    """What float16's loss is multiplied with before the backward pass; None where the exponents are float32's."""
    return LOSS_SCALE if precision is Precision.MIXED_FLOAT16 else None


def tf32_in_use(environment: Mapping[str, str] = os.environ) -> str:
    """Whether float32 factors are rounded to TF32: "on", "off", or "" where no GPU of this process could."""
    capabilities = [
        tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0))
        for gpu in tf.config.get_visible_devices("GPU")
    ]
    if not any(capability >= (8, 0) for capability in capabilities):
        return ""
    # NVIDIA's libraries obey this variable before anybody else.
    forbidden = environment.get("NVIDIA_TF32_OVERRIDE") == "0"
    return "on" if tf.config.experimental.tensor_float_32_execution_enabled() and not forbidden else "off"
