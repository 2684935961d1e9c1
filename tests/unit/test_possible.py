"""What is refused before a worker starts, and what isn't."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.possible import require_possible
from pytest_tfperf.topology import DeviceKind, Devices
from pytest_tfperf.workload import Workload

TWO_CPUS = Devices(kind=DeviceKind.CPU, count=2)
TWO_GPUS = Devices(kind=DeviceKind.GPU, count=2, gpu_uuids=("a", "b"))
THREE_GPUS = Devices(kind=DeviceKind.GPU, count=3, gpu_uuids=("a", "b", "c"))
ONE_GPU = Devices(kind=DeviceKind.GPU, count=1, gpu_uuids=("a",))
HALVES = Devices(kind=DeviceKind.GPU, count=2, gpu_uuids=("a",), split=True)


@pytest.mark.parametrize(
    ("choices", "devices", "said"),
    [
        ({"all_reduce": "nccl"}, TWO_CPUS, "needs GPUs, and there are 2 virtual CPU devices; on CPUs use"),
        ({"all_reduce": "nccl"}, HALVES, "a GPU of its own for each replica"),
        ({"all_reduce": "hierarchical"}, THREE_GPUS, "an even number of devices, and there are 3"),
        (
            {"variable_update": "parameter_server", "local_parameter_device": "gpu"},
            TWO_CPUS,
            "local_parameter_device='gpu' needs GPUs",
        ),
        ({"trainer": "keras", "forward_only": True}, ONE_GPU, "model.fit trains"),
        ({"trainer": "keras", "variable_update": "independent"}, TWO_GPUS, "exchange their gradients"),
        ({"trainer": "keras", "xla": True}, TWO_GPUS, "can't meet inside XLA"),
    ],
)
def test_what_devices_can_not_train_is_refused(choices: dict[str, Any], devices: Devices, said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        require_possible(Workload(model="trivial", batch_size=1, **choices), devices)


@pytest.mark.parametrize(
    ("choices", "devices"),
    [
        ({"all_reduce": "nccl"}, THREE_GPUS),
        ({"all_reduce": "hierarchical"}, TWO_CPUS),
        ({"all_reduce": "hierarchical"}, ONE_GPU),
        ({"variable_update": "parameter_server", "local_parameter_device": "gpu"}, HALVES),
        ({"trainer": "keras", "xla": True}, ONE_GPU),
        ({"variable_update": "independent", "forward_only": True, "xla": True}, TWO_GPUS),
    ],
)
def test_what_devices_can_train_is_not(choices: dict[str, Any], devices: Devices) -> None:
    require_possible(Workload(model="trivial", batch_size=1, **choices), devices)
