"""A performance gate for TensorFlow: train, measure images per second, hold it against committed baselines."""

from pytest_tfperf.core.workload import AllReduce, Precision, Trainer, VariableUpdate, Workload
from pytest_tfperf.errors import MeasurementError, NotEnoughDevices, ThroughputRegression

__all__ = [
    "AllReduce",
    "MeasurementError",
    "NotEnoughDevices",
    "Precision",
    "ThroughputRegression",
    "Trainer",
    "VariableUpdate",
    "Workload",
]
