"""Half the bits where it is asked for, and float32 where they would not do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from building import build, weights

from pytest_tfperf.core.workload import Optimizer, Precision, Workload
from pytest_tfperf.training import loop as loop_module
from pytest_tfperf.training import precision
from pytest_tfperf.training.optimizers import LEARNING_RATE, Descent

MIXED = [Precision.MIXED_FLOAT16, Precision.MIXED_BFLOAT16]
SHORT = {Precision.MIXED_FLOAT16: "float16", Precision.MIXED_BFLOAT16: "bfloat16", Precision.FLOAT32: "float32"}


@pytest.mark.parametrize("mixed", [*MIXED, Precision.FLOAT32])
@pytest.mark.parametrize("name", ["nets:normalised", "nets:plain", "resnet20"])
def test_products_and_normalisations_are_computed_in_the_policys_type(
    cpus: list[str], name: str, mixed: Precision
) -> None:
    loop, _ = build(cpus[:1], model=name, precision=mixed)
    definition = loop._window.get_concrete_function(tf.constant(1)).graph.as_graph_def()
    nodes = [node for function in definition.library.function for node in function.node_def]
    heavy = [n for n in nodes if n.op.startswith(("Conv2D", "MatMul", "FusedBatchNorm"))]
    assert {tf.as_dtype(n.attr["T"].type).name for n in heavy} == {SHORT[mixed]}


@pytest.mark.parametrize("mixed", MIXED)
def test_variables_and_gradients_are_float32(cpus: list[str], mixed: Precision) -> None:
    loop, model = build(cpus[:1], model="nets:normalised", precision=mixed, optimizer="momentum")
    _, gradients = tf.function(loop._loss_and_gradients)(*loop._next_batch())
    loop.run(1)
    found = [*weights(model), *gradients, *loop._descent._velocities]
    assert {tf.as_dtype(one.dtype).name for one in found} == {"float32"}


@pytest.mark.parametrize("mixed", MIXED)
def test_mixed_precision_trains_nearly_as_float32(cpus: list[str], mixed: Precision) -> None:
    how = {"input_pipeline": "feeds:learnable", "batch_size": 16}
    whole = build(cpus[:1], **how)[0].run(5)
    assert build(cpus[:1], precision=mixed, **how)[0].run(5) == pytest.approx(whole, rel=0.03)


@pytest.mark.parametrize("replicas", [1, 2])
def test_scaled_gradients_lead_where_unscaled_ones_do(
    cpus: list[str], monkeypatch: pytest.MonkeyPatch, replicas: int
) -> None:
    def trained() -> list[np.ndarray[Any, Any]]:
        loop, model = build(cpus[:replicas], model="nets:normalised", precision="mixed_float16")
        before = weights(model)
        loop.run(1)
        return [after - old for after, old in zip(weights(model), before, strict=True)]

    scaled = trained()
    monkeypatch.setattr(loop_module, "loss_scale", lambda _: 1.0)
    for one, other in zip(scaled, trained(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-2 * np.abs(other).max())


@pytest.mark.parametrize(("mixed", "lost"), [(Precision.MIXED_FLOAT16, False), (None, True)])
def test_a_gradient_that_float16_can_not_hold_survives_by_the_scale(
    cpus: list[str], mixed: Precision | None, lost: bool
) -> None:
    strategy = tf.distribute.OneDeviceStrategy(cpus[0])
    variable = tf.Variable(0.0)
    descent = Descent(strategy, [variable], Optimizer.SGD, precision.loss_scale(mixed) if mixed else 1.0)

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = 2e-8 * tf.cast(tf.cast(variable, tf.float16), tf.float32)
        descent.step(descent.gradients(tape, loss))

    strategy.run(tf.function(step))
    assert float(variable) == pytest.approx(0.0 if lost else -LEARNING_RATE * 2e-8, rel=0.02)


@pytest.mark.parametrize("choice", [Precision.FLOAT32, Precision.MIXED_BFLOAT16])
def test_where_exponents_are_float32s_nothing_is_scaled(choice: Precision) -> None:
    assert precision.loss_scale(choice) is None


@pytest.mark.parametrize("tf32", [True, False])
def test_tf32_is_what_the_workload_says(cpus: list[str], tf32: bool) -> None:
    build(cpus[:1], tf32=tf32)
    assert tf.config.experimental.tensor_float_32_execution_enabled() is tf32


@pytest.mark.parametrize(
    ("capability", "tf32", "environment", "recorded"),
    [
        ((8, 0), True, {}, "on"),
        ((9, 0), False, {}, "off"),
        ((8, 6), True, {"NVIDIA_TF32_OVERRIDE": "0"}, "off"),
        ((7, 5), True, {}, ""),
        (None, True, {}, ""),
    ],
)
def test_tf32_is_recorded_where_a_gpu_has_it(
    monkeypatch: pytest.MonkeyPatch, capability: Any, tf32: bool, environment: dict[str, str], recorded: str
) -> None:
    gpus = [SimpleNamespace()] if capability else []
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda _: gpus)
    monkeypatch.setattr(
        tf.config.experimental, "get_device_details", lambda _: {"compute_capability": capability}, raising=True
    )
    precision.set_precision(Workload(model="m:f", batch_size=1, tf32=tf32))
    assert precision.tf32_in_use(environment) == recorded
