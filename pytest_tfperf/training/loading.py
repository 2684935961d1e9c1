"""From a workload's names to a built model and an input pipeline; says what is wrong with a user's function."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.image_data import Data
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError, WorkloadError
from pytest_tfperf.training.inputs import Alone, Batch, InputSpec, checked
from pytest_tfperf.training.precision import set_precision
from pytest_tfperf.training.strategies import variable_scope


def load_model(workload: Workload, strategy: tf.distribute.Strategy, seed: int = 1) -> keras.Model:
    """The workload's model, with its variables where `strategy` wants them; `seed` sets its initial weights.

    The process computes in the workload's precision from then on.

    Raises:
        WorkloadError: the function can't be found or fails, or returns anything but a keras.Model from images to
            logits.
    """
    target = catalogue.resolve_model(workload.model)
    build = _function("model", target)
    set_precision(workload)
    keras.utils.set_random_seed(seed)
    with variable_scope(strategy):
        model = _called("model", target, build)
    _require_images_to_logits(target, model)
    return model


def input_spec(
    workload: Workload, model: keras.Model, strategy: tf.distribute.Strategy, seed: int = 1, data: Data | None = None
) -> InputSpec:
    """What `model` has to be fed with, one batch for each of the strategy's replicas."""
    return InputSpec(
        image_shape=tuple(model.input_shape[1:]),
        num_classes=model.output_shape[-1],
        batch_size=workload.batch_size,
        replicas=strategy.num_replicas_in_sync,
        seed=seed,
        data=data or Data(),
    )


def load_pipeline(workload: Workload, spec: InputSpec) -> tf.data.Dataset | Batch | Alone:
    """What the workload's input pipeline gives for `spec`, checked.

    Raises:
        NoData, MeasurementError: it reads real images, and there are none.
        WorkloadError: the function can't be found or fails, or returns batches of another form, or too few.
    """
    target = catalogue.resolve_pipeline(workload.input_pipeline)
    inputs = _called("input_pipeline", target, _function("input_pipeline", target), spec)
    try:
        return checked(inputs, spec)
    except WorkloadError as e:
        raise WorkloadError(f"input_pipeline {target!r}: {e}") from None


def _require_images_to_logits(target: str, model: Any) -> None:
    wanted = "it must return a keras.Model from images [batch, height, width, channels] to logits [batch, classes]"
    if not isinstance(model, keras.Model):
        raise WorkloadError(f"model {target!r} returned {type(model).__name__}; {wanted}")
    try:
        shapes = (model.input_shape, model.output_shape)
    except (AttributeError, ValueError):
        raise WorkloadError(
            f"model {target!r} returned a model that isn't built: give it a keras.Input; {wanted}"
        ) from None
    known = [shape[1:] if isinstance(shape, tuple) else () for shape in shapes]
    if [len(sizes) for sizes in known] != [3, 1] or not all(isinstance(size, int) for sizes in known for size in sizes):
        raise WorkloadError(f"model {target!r} maps {shapes[0]} to {shapes[1]}; {wanted}, all but the batch known")


def _function(kind: str, target: str) -> Callable[..., Any]:
    module_name, _, name = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as e:
        raise WorkloadError(f"{kind} {target!r}: can't import {module_name!r}: {e}. Is it on the import path?") from e
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        raise WorkloadError(f"{kind} {target!r}: {module_name!r} has no function {name!r}")
    return function


def _called(kind: str, target: str, function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except TfperfError:
        raise  # one of ours, which says all that there is to say
    except Exception as e:
        raise WorkloadError(f"{kind} {target!r} raised {type(e).__name__}: {e}") from e
