"""Keras' `model.fit` with keras.applications' models, or with ours where there is none: what most people train with.

A callback counts the steps as they end, so that Keras waits for each, as with any callback that reads the loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MODELS = {
    "resnet50": "ResNet50",
    "resnet101": "ResNet101",
    "resnet152": "ResNet152",
    "inception3": "InceptionV3",
    "vgg16": "VGG16",
    "vgg19": "VGG19",
}
OURS = {"bert-tiny": "bert_tiny", "bert-base": "bert_base"}


def train(model: str, inputs: Any, labels: Any, done: Callable[[], bool]) -> None:
    """Fit the model to one batch over and over, until `done`, which is called after each step, says so."""
    import keras
    import tensorflow as tf

    class Ticking(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002  # Keras names them
            if done():
                self.model.stop_training = True
                raise StopIteration

    if model in OURS:
        from pytest_tfperf.training.models import transformer

        network = getattr(transformer, OURS[model])()
    else:
        build = getattr(keras.applications, MODELS[model])
        network = build(weights=None, classes=1001, classifier_activation=None, input_shape=inputs.shape[1:])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # Not by XLA, which is Keras' own choice here: on CPUs it is several times slower.
    network.compile(keras.optimizers.SGD(0.01), loss, jit_compile=False)
    batches = tf.data.Dataset.from_tensors((inputs, labels)).repeat().prefetch(2)
    try:
        network.fit(batches, steps_per_epoch=1_000_000, epochs=1, verbose=0, callbacks=[Ticking()])
    except StopIteration:
        return
