"""Half the bits where the workload asks for them, and float32 where they would not suffice."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf
from building import build, nodes, weights, workload_of

from pytest_tfperf.core.workload import Precision
from pytest_tfperf.training import steps
from pytest_tfperf.training.steps import LEARNING_RATE, LOSS_SCALE, CrossEntropyStep


@pytest.mark.parametrize("precision", Precision)
def test_products_and_normalisations_have_the_policys_type_and_updates_have_float32(
    cpus: list[str], precision: Precision
) -> None:
    loop, model = build(cpus[:1], model="nets:normalised", precision=precision, optimizer="momentum")
    found = nodes(loop)

    def types(*operations: str) -> set[str]:
        return {tf.as_dtype(node.attr["T"].type).name for node in found if node.op.startswith(operations)}

    assert types("Conv2D", "MatMul", "FusedBatchNorm") == {precision.value.removeprefix("mixed_")}
    assert types("FusedBatchNorm") == types("Conv2D")  # each in one operation, not one by one as Keras' own
    assert types("ResourceApplyMomentum") == {"float32"}
    assert {str(w.dtype) for w in weights(model)} == {"float32"}


@pytest.mark.parametrize("precision", [Precision.MIXED_FLOAT16, Precision.MIXED_BFLOAT16])
def test_mixed_precision_trains_nearly_as_float32(cpus: list[str], precision: Precision) -> None:
    choices = {"input_pipeline": "feeds:learnable", "batch_size": 16}
    whole = build(cpus[:1], **choices)[0].run(5)
    assert build(cpus[:1], precision=precision, **choices)[0].run(5) == pytest.approx(whole, rel=0.03)


@pytest.mark.parametrize(("scale", "lost"), [(LOSS_SCALE, False), (1.0, True)])
def test_the_scale_saves_a_gradient_that_float16_can_not_represent(
    cpus: list[str], scale: float, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "LOSS_SCALE", scale)
    monkeypatch.setattr(steps, "cross_entropy", lambda logits, _: 2e-8 * tf.cast(logits, tf.float32))
    variable = keras.Variable(0.0)
    strategy, workload = tf.distribute.OneDeviceStrategy(cpus[0]), workload_of(precision="mixed_float16")
    step = CrossEntropyStep(strategy, Halved(variable), workload, horovod=None, independent=False)
    strategy.run(tf.function(step.on_replica), args=((0.0, 0.0),))
    assert float(variable) == pytest.approx(0.0 if lost else -LEARNING_RATE * 2e-8, rel=0.02)


class Halved:
    """A model whose logits are its one variable, in float16."""

    def __init__(self, variable: keras.Variable) -> None:
        self.trainable_variables = [variable]

    def __call__(self, inputs: tf.Tensor, *, training: bool) -> tf.Tensor:
        return tf.cast(self.trainable_variables[0].value, tf.float16)


@pytest.mark.parametrize("tf32", [True, False])
def test_tf32_is_what_the_workload_says(cpus: list[str], tf32: bool) -> None:
    build(cpus[:1], tf32=tf32)
    assert tf.config.experimental.tensor_float_32_execution_enabled() is tf32
