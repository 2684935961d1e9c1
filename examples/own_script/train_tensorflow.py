"""A loop of TensorFlow operations, which tells its steps."""

import argparse
import sys

import tensorflow as tf

arguments = argparse.ArgumentParser()
arguments.add_argument("--steps", type=int, default=1_000_000)
given = arguments.parse_args()

BATCH = 64
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


for step in range(1, given.steps + 1):
    loss = train_step()
    sys.audit("tfperf.step", BATCH, loss)  # a step's end, its examples and loss; nothing where no speed test listens
    if step % 1000 == 0:
        print(f"step {step}: loss {float(loss):.3f}")
