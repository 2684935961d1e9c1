"""A performance gate for training: measure images or tokens per second, compare with committed baselines.

Everything that users may import is here. The pytest process never imports TensorFlow: only workers use what needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_tfperf.core.command import Command, Reads
    from pytest_tfperf.core.figure import Figure
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.throughput import Throughput
    from pytest_tfperf.core.topology import Topology
    from pytest_tfperf.core.verdict import Outcome, Tolerance
    from pytest_tfperf.core.workload import (
        AllReduce,
        Optimizer,
        ParameterDevice,
        Precision,
        Trainer,
        VariableUpdate,
        Workload,
    )
    from pytest_tfperf.errors import (
        MeasurementError,
        NoData,
        NotEnoughDevices,
        OutOfMemory,
        TfperfError,
        ThroughputRegression,
        WorkloadError,
    )
    from pytest_tfperf.session.fixture import ThroughputFixture
    from pytest_tfperf.stores.history import load_history
    from pytest_tfperf.training.input_spec import InputSpec
    from pytest_tfperf.training.inputs import PipelineOnly
    from pytest_tfperf.training.layers import FusedBatchNormalization

__version__ = "0.1.0"

__all__ = [
    "AllReduce",
    "Command",
    "Figure",
    "FusedBatchNormalization",
    "InputSpec",
    "Measurement",
    "MeasurementError",
    "NoData",
    "NotEnoughDevices",
    "Optimizer",
    "OutOfMemory",
    "Outcome",
    "ParameterDevice",
    "PipelineOnly",
    "Precision",
    "Reads",
    "TfperfError",
    "Throughput",
    "ThroughputFixture",
    "ThroughputRegression",
    "Tolerance",
    "Topology",
    "Trainer",
    "VariableUpdate",
    "Workload",
    "WorkloadError",
    "load_history",
]

# Imported when first used: pytest imports this file even where nothing is measured, and the last three need TensorFlow.
_NAMES = {
    "core.command": "Command Reads",
    "core.figure": "Figure",
    "core.measurement": "Measurement",
    "core.throughput": "Throughput",
    "core.topology": "Topology",
    "core.verdict": "Outcome Tolerance",
    "core.workload": "AllReduce Optimizer ParameterDevice Precision Trainer VariableUpdate Workload",
    "errors": "MeasurementError NoData NotEnoughDevices OutOfMemory TfperfError ThroughputRegression WorkloadError",
    "session.fixture": "ThroughputFixture",
    "stores.history": "load_history",
    "training.input_spec": "InputSpec",
    "training.inputs": "PipelineOnly",
    "training.layers": "FusedBatchNormalization",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
