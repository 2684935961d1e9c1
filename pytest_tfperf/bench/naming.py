"""Says of a measurement that came to nothing what was to be measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError, OutOfMemory


@contextmanager
def naming(topology: Topology, *workloads: Workload) -> Iterator[None]:
    """Put workload and devices before an error of a worker; of one that ran out of memory the search names them."""
    try:
        yield
    except OutOfMemory:
        raise
    except MeasurementError as error:
        ids = " against ".join(dict.fromkeys(workload.id for workload in workloads))
        text = str(error).removeprefix(f"{ids}: ")  # a strategy names the workload that it can't serve
        raise type(error)(f"{ids} on {topology.describe()}: {text}") from error
