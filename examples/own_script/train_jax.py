"""A loop of JAX, which tells its steps."""

import argparse
import sys

import jax
import jax.numpy as jnp

arguments = argparse.ArgumentParser()
arguments.add_argument("--steps", type=int, default=1_000_000)
given = arguments.parse_args()

BATCH = 64
images = jax.random.normal(jax.random.key(0), (BATCH, 256))
labels = jax.random.randint(jax.random.key(1), (BATCH,), 0, 10)
weights = jnp.zeros((256, 10))


def loss_of(weights: jax.Array) -> jax.Array:
    log_probabilities = jax.nn.log_softmax(images @ weights)
    return -jnp.mean(jnp.take_along_axis(log_probabilities, labels[:, None], axis=1))


@jax.jit
def train_step(weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    loss, gradient = jax.value_and_grad(loss_of)(weights)
    return weights - 0.01 * gradient, loss


for step in range(1, given.steps + 1):
    weights, loss = train_step(weights)
    sys.audit("tfperf.step", BATCH, loss)  # a step's end, its examples and loss; nothing where no speed test listens
    if step % 1000 == 0:
        print(f"step {step}: loss {loss:.3f}")
