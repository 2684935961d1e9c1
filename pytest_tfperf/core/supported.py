"""Which workloads these devices can't train: known before a worker starts, and without TensorFlow."""

from __future__ import annotations

from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import AllReduce, ParameterDevice, Trainer, VariableUpdate, Workload
from pytest_tfperf.errors import WorkloadError


def require_possible(workload: Workload, devices: Devices) -> None:
    """Return where `devices`, from `Topology.take`, can train `workload`.

    Raises:
        WorkloadError: an all-reduce, a place for the parameters or a use of XLA that isn't for them; says what is.
    """
    if why := _no_all_reduce(workload, devices) or _no_place(workload, devices) or _no_xla(workload, devices):
        raise WorkloadError(f"{workload.id}: {why}")


def _no_all_reduce(workload: Workload, devices: Devices) -> str:
    if workload.all_reduce is AllReduce.NCCL and devices.kind is not DeviceKind.GPU:
        return (
            f"all_reduce='nccl' needs GPUs, and what is taken are {_cpus(devices)}; "
            "on CPUs use all_reduce='copy' or 'hierarchical'"
        )
    if workload.all_reduce is AllReduce.NCCL and devices.split and devices.count > 1:
        return (
            "all_reduce='nccl' needs a GPU of its own for each replica, and one is split here; "
            "leave out --tfperf-split-gpu, or use all_reduce='copy' or 'hierarchical'"
        )
    if workload.all_reduce is AllReduce.HIERARCHICAL and devices.count > 1 and devices.count % 2:
        # TensorFlow's cross_device_utils adds up two halves of n // 2 replicas each, and says nothing of the last.
        return (
            f"all_reduce='hierarchical' needs an even number of devices, and there are {devices.count}: "
            "TensorFlow would leave one's gradients out; use all_reduce='copy' or 'nccl'"
        )
    return ""


def _no_place(workload: Workload, devices: Devices) -> str:
    if workload.local_parameter_device is ParameterDevice.GPU and devices.kind is not DeviceKind.GPU:
        return (
            f"local_parameter_device='gpu' needs GPUs, and what is taken are {_cpus(devices)}; "
            "leave it out to keep the parameters on the CPU"
        )
    return ""


def _no_xla(workload: Workload, devices: Devices) -> str:
    if not workload.xla:
        return ""
    if workload.variable_update is VariableUpdate.PARAMETER_SERVER and not _holds_its_parameters(workload, devices):
        return (
            "XLA can't compile a step whose variables lie on another device; use variable_update='replicated' with it"
        )
    if workload.trainer is Trainer.KERAS and devices.count > 1:
        return "model.fit compiles the update too, and replicas can't meet inside XLA; use trainer='loop'"
    return ""


def _holds_its_parameters(workload: Workload, devices: Devices) -> bool:
    """Whether a parameter server is one device, that trains what it keeps."""
    return devices.count == 1 and devices.kind.value.lower() == workload.local_parameter_device.value


def _cpus(devices: Devices) -> str:
    return f"{devices.count} virtual CPU devices" if devices.count > 1 else "the CPUs"
