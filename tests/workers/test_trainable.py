"""Choices that given devices can't train are refused before a worker starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_tfperf.core.topology import DeviceKind, Devices, Topology
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.workers.catalogue import require_trainable
from tests.helpers.played import BOX

NCCL = {"all_reduce": "nccl"}
HIERARCHICAL = {"all_reduce": "hierarchical"}
SERVER = {"variable_update": "parameter_server"}
ON_GPU = {**SERVER, "local_parameter_device": "gpu"}
XLA = {"xla": True}
FIT = {"trainer": "keras"}
COLLECTIVE = {"variable_update": "collective"}
HOROVOD = {"variable_update": "horovod"}


def cpus(count: int, nodes: int = 1) -> Topology:
    return replace(BOX, devices=Devices(kind=DeviceKind.CPU, count=count), node_count=nodes)


def gpus(count: int, nodes: int = 1) -> Topology:
    uuids = tuple(f"GPU-{i}" for i in range(count))
    return replace(BOX, devices=Devices(kind=DeviceKind.GPU, count=count, gpu_uuids=uuids), node_count=nodes)


def split(count: int) -> Topology:
    return replace(BOX, devices=Devices(kind=DeviceKind.GPU, count=count, gpu_uuids=("GPU-0",), split=True))


def workload(choices: dict[str, Any]) -> Workload:
    return Workload(**{"model": "m", "batch_size": 1, **choices})


@pytest.mark.parametrize(
    ("choices", "topology", "message"),
    [
        (NCCL, cpus(1), r"needs GPUs, and this test runs on the CPU; on CPUs use all_reduce='copy' or 'hierarchical'$"),
        (NCCL, cpus(2), r"needs GPUs, and this test runs on 2 virtual CPU devices"),
        ({**COLLECTIVE, **NCCL}, cpus(1, nodes=2), r"needs GPUs.*on CPUs use all_reduce='auto' or 'ring'$"),
        ({**HOROVOD, **NCCL}, cpus(2), r"needs GPUs.*on CPUs use all_reduce='auto'$"),
        (NCCL, split(2), r"a GPU for each replica.*leave out tfperf_split_gpu, or use all_reduce='copy' or 'hier"),
        ({**COLLECTIVE, **NCCL}, split(2), r"leave out tfperf_split_gpu, or use all_reduce='auto' or 'ring'$"),
        (HOROVOD, split(2), r"a process for each GPU, and here one GPU is split; leave out tfperf_split_gpu"),
        (HIERARCHICAL, cpus(3), r"an even number of devices, and there are 3: .*'copy' or 'nccl'"),
        (ON_GPU, cpus(1), r"needs GPUs.*leave it out to keep the parameters, or the sums of gradients, on the CPU"),
        ({**SERVER, **XLA}, cpus(2), r"XLA can't compile .*variable_update='replicated'"),
        ({**SERVER, **XLA}, gpus(1), r"XLA can't compile"),
        ({**ON_GPU, **XLA}, gpus(2), r"XLA can't compile"),
        ({**FIT, **XLA}, cpus(2), r"by NCCL only; use all_reduce='nccl' on GPUs, or trainer='loop'"),
        ({**FIT, **XLA}, gpus(2), r"by NCCL only"),
    ],
)
def test_what_the_devices_can_not_train_says_what_they_can(
    choices: dict[str, Any], topology: Topology, message: str
) -> None:
    with pytest.raises(WorkloadError, match=message):
        require_trainable(workload(choices), topology)


@pytest.mark.parametrize(
    ("choices", "topology"),
    [
        (NCCL, gpus(3)),
        (NCCL, split(1)),
        (HIERARCHICAL, split(4)),
        (SERVER, cpus(2)),
        (ON_GPU, gpus(2)),
        ({**SERVER, **XLA}, cpus(1)),
        ({**ON_GPU, **XLA}, gpus(1)),
        ({**FIT, **XLA}, gpus(1)),
        ({**FIT, **XLA, **NCCL}, gpus(2)),
        (XLA, gpus(4)),
        (COLLECTIVE, cpus(2, nodes=2)),
        ({**COLLECTIVE, **NCCL}, gpus(2, nodes=2)),
        ({**COLLECTIVE, **XLA}, gpus(2, nodes=2)),
        (HOROVOD, cpus(1, nodes=2)),
        (HOROVOD, split(1)),
    ],
)
def test_what_the_devices_can_train_passes(choices: dict[str, Any], topology: Topology) -> None:
    require_trainable(workload(choices), topology)


@pytest.mark.parametrize("update", ["replicated", "independent"])
def test_an_update_that_trains_on_one_node_says_which_train_on_several(update: str) -> None:
    one_node = workload({"variable_update": update})
    require_trainable(one_node, gpus(2))
    said = f"variable_update='{update}' trains on one node, and this test takes 2; on .*'collective', 'horovod' or "
    with pytest.raises(WorkloadError, match=said):
        require_trainable(one_node, gpus(2, nodes=2))
