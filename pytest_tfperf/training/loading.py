"""From a workload's names to a built model and an input pipeline; says what is wrong with a user's function."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from pytest_tfperf import catalogue
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.inputs import Batch, InputSpec
from pytest_tfperf.training.strategies import variable_scope
from pytest_tfperf.workload import Workload


def load_model(workload: Workload, strategy: tf.distribute.Strategy, seed: int = 1) -> keras.Model:
    """The workload's model, with its variables where `strategy` wants them; the seed sets its initial weights.

    Raises:
        WorkloadError: the function can't be found or fails, or returns something else than such a model.
    """
    target = catalogue.resolve_model(workload.model)
    build = _function("model", target)
    keras.utils.set_random_seed(seed)
    keras.config.set_dtype_policy(workload.precision.value)
    with variable_scope(strategy):
        model = _called("model", target, build)
    if not isinstance(model, keras.Model):
        raise WorkloadError(f"model {target!r} must return a keras.Model, not {type(model).__name__}")
    return model


def input_spec(workload: Workload, model: keras.Model, strategy: tf.distribute.Strategy, seed: int = 1) -> InputSpec:
    """What `model` has to be fed with, one batch for each of the strategy's replicas."""
    return InputSpec(
        image_shape=tuple(model.input_shape[1:]),
        num_classes=model.output_shape[-1],
        batch_size=workload.batch_size,
        replicas=strategy.num_replicas_in_sync,
        seed=seed,
    )


def load_pipeline(workload: Workload, spec: InputSpec) -> tf.data.Dataset | Batch:
    """What the workload's input pipeline gives for `spec`.

    Raises:
        WorkloadError: the function can't be found or fails, or returns batches of another form.
    """
    target = catalogue.resolve_pipeline(workload.input_pipeline)
    return _called("input_pipeline", target, _function("input_pipeline", target), spec)


def _function(kind: str, target: str) -> Callable[..., Any]:
    module_name, _, name = target.partition(":")
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as e:
        raise WorkloadError(f"{kind} {target!r} can't be imported: {e}") from e
    return function


def _called(kind: str, target: str, function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as e:
        raise WorkloadError(f"{kind} {target!r} raised {type(e).__name__}: {e}") from e
