"""Synthetic images that stay on each device: the throughput of the model when its input costs nothing."""

from __future__ import annotations

from pytest_tfperf.training.inputs import Batch, InputSpec


def device(spec: InputSpec) -> Batch:
    """One constant batch on every replica's device, as tensorpack's `--fake-location gpu`."""
    return spec.synthetic()
