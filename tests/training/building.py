"""A training loop, in the few steps in which a worker makes one."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from pytest_tfperf.core.workload import Workload
from pytest_tfperf.training.loading import input_spec, load_model, load_pipeline
from pytest_tfperf.training.strategies import strategy_for
from pytest_tfperf.training.trainers import trainer_for


def build(devices: list[str], seed: int = 1, **workload: Any) -> tuple[Any, keras.Model]:
    asked = Workload(**{"model": "nets:plain", "batch_size": 4} | workload)
    strategy = strategy_for(asked, devices)
    model = load_model(asked, strategy, seed)
    inputs = load_pipeline(asked, input_spec(asked, model, strategy, seed))
    return trainer_for(strategy, model, inputs, asked), model


def weights(model: keras.Model) -> list[np.ndarray[Any, Any]]:
    """All of them, moving statistics included, as one reads them between steps."""
    return [np.array(v.value.read_value()) for v in model.variables]


def assert_same(found: list[Any], wanted: list[Any], rtol: float = 1e-4) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-6)
