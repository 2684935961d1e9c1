"""From a workload's names to a built model, an input pipeline and a loop, with errors that name the user's function."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import keras
import tensorflow as tf

from pytest_tfperf.core.job import Cluster
from pytest_tfperf.core.workload import Trainer, Workload
from pytest_tfperf.errors import TfperfError, UnknownFunction, WorkloadError
from pytest_tfperf.training.horovod import Horovod
from pytest_tfperf.training.input_spec import InputSpec, parts_of
from pytest_tfperf.training.inputs import Batch, PipelineOnly, checked, count, feed
from pytest_tfperf.training.keras_fit import FitLoop
from pytest_tfperf.training.loop import InputLoop, Loop, OwnLoop, TrainingLoop
from pytest_tfperf.training.strategies import is_plain_fit, variable_scope
from pytest_tfperf.workers import catalogue


def load_model(workload: Workload, strategy: tf.distribute.Strategy, seed: int = 1) -> keras.Model:
    """The workload's model, with its variables where `strategy` keeps them; `seed` sets its initial weights.

    From then on the process computes in the workload's precision. Variables are float32 under every precision.

    Raises:
        WorkloadError: the function can't be found or fails, or returns anything but a keras.Model.
    """
    target = catalogue.resolve("model", workload.model)
    build = _function("model", target)
    # Before the model is built: layers take the policy when they are made.
    keras.config.set_dtype_policy(workload.precision.value)
    tf.config.experimental.enable_tensor_float_32_execution(workload.tf32)
    keras.utils.set_random_seed(seed)
    with nullcontext() if is_plain_fit(workload, strategy) else variable_scope(strategy):
        model = _called("model", target, build)
    if not isinstance(model, keras.Model):
        hint = ". An object with `run` is measured with trainer='own'" if hasattr(model, "run") else ""
        raise WorkloadError(f"model {target!r} returned {type(model).__name__}; it must return a keras.Model{hint}")
    return model


def load_own(workload: Workload, devices: list[str]) -> OwnLoop:
    """Call the model's function with batch size and devices; for trainer="own" it returns the user's own training.

    Raises:
        WorkloadError: the function can't be found or fails, or returns an object without `run` and `examples_per_step`.
    """
    target = catalogue.resolve("model", workload.model)
    own = _called("model", target, _function("model", target), workload.batch_size, devices)
    try:
        return OwnLoop(own, devices)
    except WorkloadError as error:
        raise error.at(f"model {target!r}") from None


def input_spec(
    workload: Workload,
    model: keras.Model,
    strategy: tf.distribute.Strategy,
    seed: int = 1,
    data_dir: str = "",
    cluster: Cluster | None = None,
) -> InputSpec:
    """The batches that `model` takes, one for each of this process's replicas.

    Raises:
        WorkloadError: a model that is not compiled, and gives anything but logits.
    """
    rank = 0 if cluster is None else cluster.rank
    of_keras, own = keras.Model, type(model)
    # Its step then defines what it does with a batch: a GAN's `call` may take noise, and its step images.
    has_own_step = own.train_step is not of_keras.train_step or own.test_step is not of_keras.test_step
    return InputSpec(
        parts=parts_of(model, catalogue.resolve("model", workload.model)),
        any_labels=model.compiled,
        any_inputs=model.compiled and has_own_step,
        batch_size=workload.batch_size,
        replicas=len(strategy.extended.worker_devices),
        seed=seed + rank,
        data_dir=data_dir,
        num_input_pipelines=1 if cluster is None else cluster.size,
        input_pipeline_id=rank,
    )


def load_pipeline(workload: Workload, spec: InputSpec) -> tf.data.Dataset | Batch | PipelineOnly:
    """Call the workload's input pipeline with `spec`, and check the result.

    Raises:
        NoData, MeasurementError: it reads the data set, and there is none.
        WorkloadError: the function can't be found or fails, or returns batches of another signature, or too few.
    """
    target = catalogue.resolve("input_pipeline", workload.input_pipeline)
    inputs = _called("input_pipeline", target, _function("input_pipeline", target), spec)
    try:
        return checked(inputs, spec)
    except WorkloadError as e:
        raise e.at(f"input_pipeline {target!r}") from None


def loop_for(
    workload: Workload,
    strategy: tf.distribute.Strategy,
    model: keras.Model,
    inputs: tf.data.Dataset | Batch | PipelineOnly,
    horovod: Horovod | None = None,
) -> Loop:
    """The loop that the workload's trainer, or a pipeline that is measured by itself, asks for.

    Raises:
        WorkloadError: training options for a pipeline that is measured by itself.
    """
    if isinstance(inputs, PipelineOnly):
        catalogue.require_no_training_options(workload)  # of a user's own pipeline this is known only now
        examples, unit = count(workload, inputs.inputs, model)
        together = examples * strategy.num_replicas_in_sync
        return InputLoop(strategy, feed(strategy, inputs.inputs), workload, together, unit)
    if workload.trainer is Trainer.KERAS:
        return FitLoop(strategy, model, inputs, workload)
    return TrainingLoop(strategy, model, inputs, workload, horovod=horovod)


def _function(field: str, target: str) -> Callable[..., Any]:
    module_name, _, name = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as e:
        # The module may be there, and fail to import another one.
        is_missing = isinstance(e, ModuleNotFoundError) and f"{module_name}.".startswith(f"{e.name}.")
        hint = ". Is it on the import path?" if is_missing else ""
        kind = UnknownFunction if is_missing else WorkloadError
        raise kind(f"{field} {target!r}: can't import {module_name!r}: {e}{hint}") from e
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        raise UnknownFunction(f"{field} {target!r}: {module_name!r} has no function {name!r}")
    return function


def _called(field: str, target: str, function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except TfperfError:
        raise  # its message is complete
    except Exception as e:
        raise WorkloadError(f"{field} {target!r} raised {type(e).__name__}: {e}") from e
