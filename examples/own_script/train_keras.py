"""Keras' `fit` as it is."""

import argparse

import keras
import numpy as np

arguments = argparse.ArgumentParser()
arguments.add_argument("--epochs", type=int, default=3)
arguments.add_argument("--batch-size", type=int, default=32)
given = arguments.parse_args()

data = np.random.default_rng(0)
features = data.normal(size=(200 * given.batch_size, 64)).astype("float32")
labels = (features.sum(axis=1) > 0).astype("int32")

model = keras.Sequential([keras.layers.Dense(256, activation="relu"), keras.layers.Dense(2)])
model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(features, labels, batch_size=given.batch_size, epochs=given.epochs)
