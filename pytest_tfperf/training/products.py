"""How many multiply-adds a second a device reaches in matrix products: what its arithmetic could do at best."""

from __future__ import annotations

import time

import tensorflow as tf

SECONDS = 0.5
_WINDOWS = 5
_LEAST_SECONDS = 0.01
_SMALLEST_SIDE, _LARGEST_SIDE = 512, 8192


def multiply_adds_per_sec(device: str, dtype: str, seconds: float = SECONDS) -> float:
    """The fastest of some windows of products of square matrices, of normal random numbers: neighbours only take.

    The side doubles from 512 until one product takes 10 ms, or its memory is not to be had, or it is 8192: from there
    on a device that is large enough for nothing else to count gains no more.

    Args:
        device: "GPU:0".
        dtype: of the factors: "float32", "float16", "bfloat16".
        seconds: about how long it may take.
    """
    ends = time.perf_counter() + seconds
    side = _SMALLEST_SIDE
    taken = _seconds_of(device, dtype, side)
    while taken < _LEAST_SECONDS and side < _LARGEST_SIDE:
        try:
            taken = _seconds_of(device, dtype, 2 * side)
        except tf.errors.ResourceExhaustedError:
            break
        side *= 2
    products = max(1, round(seconds / 2 / _WINDOWS / taken))
    windows: list[float] = []
    while len(windows) < 2 or time.perf_counter() < ends:
        windows.append(_seconds_of(device, dtype, side, products))
    return float(side**3 / min(windows))


def _seconds_of(device: str, dtype: str, side: int, products: int = 1) -> float:
    """Of one product, after another that the device's libraries choose their algorithm by."""
    with tf.device(device):
        factor = tf.cast(tf.random.normal((side, side)), dtype)
        tf.linalg.matmul(factor, factor)
        tf.test.experimental.sync_devices()
        started = time.perf_counter()
        for _ in range(products):
            tf.linalg.matmul(factor, factor)
        tf.test.experimental.sync_devices()
    return (time.perf_counter() - started) / products
