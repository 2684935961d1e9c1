"""Which workloads given devices can't train; known without TensorFlow, before a worker starts."""

from __future__ import annotations

from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import AllReduce, ParameterDevice, Trainer, VariableUpdate, Workload
from pytest_tfperf.errors import WorkloadError


def require_supported(workload: Workload, devices: Devices) -> None:
    """Return if `devices`, from `Topology.take`, can train `workload`.

    Raises:
        WorkloadError: they lack what its all-reduce, parameter device or XLA needs; says which choices work.
    """
    fault = (
        _all_reduce_fault(workload, devices)
        or _parameter_device_fault(workload, devices)
        or _xla_fault(workload, devices)
    )
    if fault:
        raise WorkloadError(f"{workload.id}: {fault}")


def _all_reduce_fault(workload: Workload, devices: Devices) -> str:
    if workload.all_reduce is AllReduce.NCCL and devices.kind is not DeviceKind.GPU:
        return (
            f"all_reduce='nccl' needs GPUs, and this test runs on {_cpus(devices)}; "
            "on CPUs use all_reduce='copy' or 'hierarchical'"
        )
    if workload.all_reduce is AllReduce.NCCL and devices.split and devices.count > 1:
        return (
            "all_reduce='nccl' needs a GPU for each replica, and here one GPU is split; "
            "leave out --tfperf-split-gpu, or use all_reduce='copy' or 'hierarchical'"
        )
    if workload.all_reduce is AllReduce.HIERARCHICAL and devices.count > 1 and devices.count % 2:
        # TensorFlow's cross_device_utils sums two halves of n // 2 replicas each, and silently drops the last one.
        return (
            f"all_reduce='hierarchical' needs an even number of devices, and there are {devices.count}: "
            "TensorFlow would ignore the gradients of one; use all_reduce='copy' or 'nccl'"
        )
    return ""


def _parameter_device_fault(workload: Workload, devices: Devices) -> str:
    if workload.local_parameter_device is ParameterDevice.GPU and devices.kind is not DeviceKind.GPU:
        return (
            f"local_parameter_device='gpu' needs GPUs, and this test runs on {_cpus(devices)}; "
            "leave it out to keep the parameters on the CPU"
        )
    return ""


def _xla_fault(workload: Workload, devices: Devices) -> str:
    if not workload.xla:
        return ""
    on_one_device = (
        devices.count == 1 and devices.kind.value.lower() == workload.local_parameter_device.value
    )  # a parameter server that is one device trains the variables that it keeps
    if workload.variable_update is VariableUpdate.PARAMETER_SERVER and not on_one_device:
        return "XLA can't compile a step whose variables are on another device; use variable_update='replicated'"
    if workload.trainer is Trainer.KERAS and devices.count > 1:
        return "model.fit also compiles the update, and XLA can't exchange gradients; use trainer='loop'"
    return ""


def _cpus(devices: Devices) -> str:
    return f"{devices.count} virtual CPU devices" if devices.count > 1 else "the CPU"
