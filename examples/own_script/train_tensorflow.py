"""A loop of TensorFlow operations, which prints its rate as `name: value unit`."""

import argparse
import time

import tensorflow as tf

arguments = argparse.ArgumentParser()
arguments.add_argument("--steps", type=int, default=1_000_000)
given = arguments.parse_args()

BATCH, EVERY = 64, 200
weights = tf.Variable(tf.random.stateless_normal([256, 10], seed=(1, 2)))
images = tf.random.stateless_normal([BATCH, 256], seed=(3, 4))
labels = tf.random.stateless_uniform([BATCH], seed=(5, 6), maxval=10, dtype=tf.int32)


@tf.function
def train_step() -> tf.Tensor:
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, images @ weights)
        loss = tf.reduce_mean(losses)
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    return loss


began = time.perf_counter()
for step in range(1, given.steps + 1):
    loss = train_step()
    if step % EVERY == 0:
        loss = float(loss)  # waits for the device
        now = time.perf_counter()
        print(f"step {step}  throughput: {EVERY * BATCH / (now - began):.1f} images/s  loss: {loss:.3f}")
        began = now
