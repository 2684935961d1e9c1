"""A performance gate for training: measure images or tokens per second, compare with committed baselines.

Everything that users may import is here. What needs TensorFlow is imported when it is first used, in a worker: the
pytest process never imports TensorFlow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from pytest_tfperf.core.command import Reads
    from pytest_tfperf.core.figure import Figure
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.throughput import Throughput
    from pytest_tfperf.core.topology import Topology
    from pytest_tfperf.session.fixture import ThroughputFixture
    from pytest_tfperf.stores.data_frame import load_history
    from pytest_tfperf.training.input_spec import InputSpec
    from pytest_tfperf.training.inputs import PipelineOnly
    from pytest_tfperf.training.layers import FusedBatchNormalization

__version__ = "0.1.0"

__all__ = [
    "AllReduce",
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

# Imported when they are first used. The first six are what tests seldom name, so that collecting is short; the others
# are for authors of models and input pipelines, and their modules import TensorFlow.
_LATER = {
    "Figure": "pytest_tfperf.core.figure",
    "Measurement": "pytest_tfperf.core.measurement",
    "Reads": "pytest_tfperf.core.command",
    "Throughput": "pytest_tfperf.core.throughput",
    "ThroughputFixture": "pytest_tfperf.session.fixture",
    "Topology": "pytest_tfperf.core.topology",
    "load_history": "pytest_tfperf.stores.data_frame",
    "FusedBatchNormalization": "pytest_tfperf.training.layers",
    "InputSpec": "pytest_tfperf.training.input_spec",
    "PipelineOnly": "pytest_tfperf.training.inputs",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
