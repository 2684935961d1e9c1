"""Which workloads some devices can't train, known before a worker starts and TensorFlow is there to refuse them."""

from __future__ import annotations

from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.topology import DeviceKind, Devices
from pytest_tfperf.workload import AllReduce, ParameterDevice, Trainer, VariableUpdate, Workload


def require_possible(workload: Workload, devices: Devices) -> None:
    """All that is known beforehand.

    Raises:
        WorkloadError: what these devices, or its trainer, can't do; says what can.
    """
    on_gpus = devices.kind is DeviceKind.GPU
    require_devices(workload, on_gpus=on_gpus, replicas=devices.count, gpus=1 if devices.split else devices.count)
    if workload.trainer is Trainer.KERAS:
        require_fit(workload, devices.count)


def require_devices(workload: Workload, *, on_gpus: bool, replicas: int, gpus: int) -> None:
    """Of an exchange of gradients, and of a place for the parameters.

    Args:
        workload: what is to be trained.
        on_gpus: on CPUs else.
        replicas: logical devices.
        gpus: physical GPUs that they are.

    Raises:
        WorkloadError: as `require_possible`.
    """
    if workload.all_reduce is AllReduce.NCCL and not on_gpus:
        raise WorkloadError(
            f"{workload.id}: all_reduce='nccl' needs GPUs, and {_cpus(replicas)}; "
            "on CPUs use all_reduce='copy' or 'hierarchical'"
        )
    if workload.all_reduce is AllReduce.NCCL and replicas > gpus:
        raise WorkloadError(
            f"{workload.id}: all_reduce='nccl' needs a GPU of its own for each replica, and one is split here; "
            "leave out --tfperf-split-gpu, or use all_reduce='copy' or 'hierarchical'"
        )
    if workload.all_reduce is AllReduce.HIERARCHICAL and replicas > 1 and replicas % 2:
        # TensorFlow's cross_device_utils adds up two halves of n // 2 replicas each, and says nothing of the last.
        raise WorkloadError(
            f"{workload.id}: all_reduce='hierarchical' needs an even number of devices, and there are {replicas}: "
            "TensorFlow would leave one's gradients out; use all_reduce='copy' or 'nccl'"
        )
    if workload.local_parameter_device is ParameterDevice.GPU and not on_gpus:
        raise WorkloadError(
            f"{workload.id}: local_parameter_device='gpu' needs GPUs, and {_cpus(replicas)}; "
            "leave it out to keep the parameters on the CPU"
        )


def require_fit(workload: Workload, replicas: int) -> None:
    """Of Keras' `model.fit`; raises as `require_possible`."""
    if workload.forward_only:
        raise WorkloadError(f"{workload.id}: model.fit trains; use trainer='loop' with forward_only")
    if workload.variable_update is VariableUpdate.INDEPENDENT:
        raise WorkloadError(
            f"{workload.id}: model.fit has all replicas exchange their gradients; use trainer='loop' with 'independent'"
        )
    if workload.xla and replicas > 1:
        raise WorkloadError(
            f"{workload.id}: model.fit compiles the update too, and replicas can't meet inside XLA; use trainer='loop'"
        )


def _cpus(replicas: int) -> str:
    return "there is one virtual CPU device" if replicas == 1 else f"there are {replicas} virtual CPU devices"
