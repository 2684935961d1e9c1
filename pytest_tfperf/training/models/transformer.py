"""Transformer encoders: BERT, classifying texts of 128 tokens.

Sources: Devlin et al., arXiv:1810.04805; Turc et al., arXiv:1908.08962 (the small ones); google-research/bert,
modeling.py and run_classifier.py, whose names the inputs have.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import layers, ops

LENGTH = 128
_VOCABULARY, _POSITIONS, _SEGMENTS, _CLASSES = 30522, 512, 2, 2
_DROPOUT = 0.1


def bert_base() -> keras.Model:
    """12 layers of 768, 12 heads; [batch, 128] token ids, mask and segment ids to [batch, 2].

    109,482,240 parameters, as published, and 1,538 of the classifier; 11.174 GMAC an example.
    """
    return _bert("bert_base", layers_of_encoder=12, width=768)


def bert_tiny() -> keras.Model:
    """2 layers of 128, 2 heads, for CPUs; otherwise as `bert_base`.

    4,385,920 parameters, as published, and 258 of the classifier; 0.059 GMAC an example.
    """
    return _bert("bert_tiny", layers_of_encoder=2, width=128)


def _bert(name: str, layers_of_encoder: int, width: int) -> keras.Model:
    # TensorFlow computes with a GPU's int32 tensors on the host, which would wait for the GPU in each step.
    ids, mask, segments = (
        keras.Input((LENGTH,), dtype="int64", name=name) for name in ("input_ids", "input_mask", "segment_ids")
    )
    x = layers.Embedding(_VOCABULARY, width, embeddings_initializer=_drawn())(ids)
    x = x + layers.Embedding(_SEGMENTS, width, embeddings_initializer=_drawn())(segments)
    x = layers.Dropout(_DROPOUT)(_normalised(Positions()(x)))
    attended = ops.expand_dims(mask, 1)  # each token may look at all that are no padding
    for _ in range(layers_of_encoder):
        x = _encoder_layer(x, attended, width)
    pooled = _dense(width, "tanh")(x[:, 0])
    logits = _dense(_CLASSES)(layers.Dropout(_DROPOUT)(pooled))
    return keras.Model({"input_ids": ids, "input_mask": mask, "segment_ids": segments}, logits, name=name)


def _encoder_layer(x: Any, attended: Any, width: int) -> Any:
    """Attention and a dense network of four times the width, each added to what it got and normalised."""
    attention = layers.MultiHeadAttention(width // 64, 64, dropout=_DROPOUT, kernel_initializer=_drawn())
    x = _normalised(x + layers.Dropout(_DROPOUT)(attention(x, x, attention_mask=attended)))
    inner = _dense(width)(_dense(4 * width, keras.activations.gelu)(x))
    return _normalised(x + layers.Dropout(_DROPOUT)(inner))


class Positions(layers.Layer):  # type: ignore[misc]  # Keras ships no types
    """Adds a learned vector to each position of [batch, length, width]."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Make the vectors of 512 positions, of which a batch of 128 tokens uses the first."""
        self.positions = self.add_weight((_POSITIONS, input_shape[-1]), initializer=_drawn(), name="positions")

    def call(self, inputs: Any) -> Any:
        """The sum, in the inputs' shape."""
        return inputs + self.positions[: inputs.shape[1]]


def _normalised(x: Any) -> Any:
    return layers.LayerNormalization(epsilon=1e-12)(x)


def _dense(units: int, activation: Any = None) -> Any:
    return layers.Dense(units, activation, kernel_initializer=_drawn())


def _drawn() -> Any:
    return keras.initializers.TruncatedNormal(stddev=0.02)
