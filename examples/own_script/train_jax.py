"""A loop of JAX, which prints how long its steps take."""

import argparse
import time

import jax
import jax.numpy as jnp

arguments = argparse.ArgumentParser()
arguments.add_argument("--steps", type=int, default=1_000_000)
given = arguments.parse_args()

BATCH, EVERY = 64, 200
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


began = time.perf_counter()
for step in range(1, given.steps + 1):
    weights, loss = train_step(weights)
    if step % EVERY == 0:
        value = float(loss)  # waits for the device
        now = time.perf_counter()
        print(f"step {step}: {1000 * (now - began) / EVERY:.4f} ms, loss {value:.3f}")
        began = now
