"""Choices that given devices can't train are refused before a worker starts."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_tfperf.core.supported import require_supported
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import WorkloadError

NCCL = {"all_reduce": "nccl"}
HIERARCHICAL = {"all_reduce": "hierarchical"}
SERVER = {"variable_update": "parameter_server"}
ON_GPU = {**SERVER, "local_parameter_device": "gpu"}
XLA = {"xla": True}
FIT = {"trainer": "keras"}


def cpus(count: int) -> Devices:
    return Devices(kind=DeviceKind.CPU, count=count)


def gpus(count: int) -> Devices:
    return Devices(kind=DeviceKind.GPU, count=count, gpu_uuids=tuple(f"GPU-{i}" for i in range(count)))


def split(count: int) -> Devices:
    return Devices(kind=DeviceKind.GPU, count=count, gpu_uuids=("GPU-0",), split=True)


def workload(choices: dict[str, Any]) -> Workload:
    return Workload(**{"model": "m", "batch_size": 1, **choices})


@pytest.mark.parametrize(
    ("choices", "devices", "message"),
    [
        (NCCL, cpus(1), r"needs GPUs, and this test runs on the CPU; .*'copy' or 'hierarchical'"),
        (NCCL, cpus(2), r"needs GPUs, and this test runs on 2 virtual CPU devices"),
        (NCCL, split(2), r"a GPU for each replica.*leave out --tfperf-split-gpu"),
        (HIERARCHICAL, cpus(3), r"an even number of devices, and there are 3: .*'copy' or 'nccl'"),
        (ON_GPU, cpus(1), r"needs GPUs.*leave it out to keep the parameters on the CPU"),
        ({**SERVER, **XLA}, cpus(2), r"XLA can't compile .*variable_update='replicated'"),
        ({**SERVER, **XLA}, gpus(1), r"XLA can't compile"),
        ({**ON_GPU, **XLA}, gpus(2), r"XLA can't compile"),
        ({**FIT, **XLA}, cpus(2), r"XLA can't exchange gradients; use trainer='loop'"),
    ],
)
def test_what_the_devices_can_not_train_says_what_they_can(
    choices: dict[str, Any], devices: Devices, message: str
) -> None:
    with pytest.raises(WorkloadError, match=message):
        require_supported(workload(choices), devices)


@pytest.mark.parametrize(
    ("choices", "devices"),
    [
        (NCCL, gpus(3)),
        (NCCL, split(1)),
        (HIERARCHICAL, split(4)),
        (SERVER, cpus(2)),
        (ON_GPU, gpus(2)),
        ({**SERVER, **XLA}, cpus(1)),
        ({**ON_GPU, **XLA}, gpus(1)),
        ({**FIT, **XLA}, gpus(1)),
        (XLA, gpus(4)),
    ],
)
def test_what_the_devices_can_train_passes(choices: dict[str, Any], devices: Devices) -> None:
    require_supported(workload(choices), devices)
