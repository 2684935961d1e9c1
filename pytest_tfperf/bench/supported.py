"""The workloads that given devices can't train, known without TensorFlow, before a worker starts."""

from __future__ import annotations

from pytest_tfperf.core.topology import DeviceKind, Topology
from pytest_tfperf.core.workload import (
    ALL_REDUCES,
    DISTRIBUTED,
    AllReduce,
    ParameterDevice,
    Trainer,
    VariableUpdate,
    Workload,
)
from pytest_tfperf.errors import MeasurementError, WorkloadError


def require_supported(workload: Workload, topology: Topology) -> None:
    """Check that the topology's taken devices can train `workload`.

    Raises:
        WorkloadError: they lack what its all-reduce, parameter device or XLA needs, or its update can't train on
            several nodes; says which choices work.
    """
    if fault := _fault(workload, topology):
        raise WorkloadError(f"{workload.id}: {fault}")


def require_memory(topology: Topology) -> None:
    """Check that the peak memory of a program can be measured on these GPUs.

    Raises:
        MeasurementError: the driver does not report the memory of one, as of a GB10, whose memory is the host's.
    """
    if missing := [gpu.name for gpu in topology.gpus if gpu.memory_bytes is None]:
        raise MeasurementError(
            f"peak_memory can't be measured: the driver does not report the memory in use on {missing[0]}",
            next_step="Leave peak_memory out of also= (ini tfperf_also) on this machine",
        )


def _fault(workload: Workload, topology: Topology) -> str:
    """Return why the devices can't train the workload, and what to use instead; "" if they can."""
    devices = topology.devices
    assert devices is not None, "the fixture has refused a topology without devices taken"
    nodes, update = topology.node_count, workload.variable_update
    on_gpus = devices.kind is DeviceKind.GPU
    by_nccl = workload.all_reduce is AllReduce.NCCL
    parameters_on_gpu = workload.local_parameter_device is ParameterDevice.GPU
    if nodes > 1 and update not in (*DISTRIBUTED, VariableUpdate.PARAMETER_SERVER):
        return (
            f"variable_update={update.value!r} trains on one node, and this test takes {nodes}; on several nodes use "
            "'collective', 'horovod' or 'parameter_server'"
        )
    if nodes > 1 and workload.trainer is Trainer.KERAS:
        return f"model.fit trains on one node, and this test takes {nodes}; use trainer='loop'"
    if devices.split and update is VariableUpdate.HOROVOD and devices.count > 1:
        return "Horovod starts a process for each GPU, and here one GPU is split; leave out tfperf_split_gpu"
    cpus = f"{devices.count} virtual CPU devices" if devices.count > 1 else "the CPU"
    others = [repr(choice.value) for choice in ALL_REDUCES.get(update, ()) if choice != "nccl"]
    without_nccl = f"all_reduce={' or '.join(others)}"
    if by_nccl and not on_gpus:
        return f"all_reduce='nccl' needs GPUs, and this test runs on {cpus}; on CPUs use {without_nccl}"
    if by_nccl and devices.split and devices.count > 1:
        return (
            "all_reduce='nccl' needs a GPU for each replica, and here one GPU is split; "
            f"leave out tfperf_split_gpu, or use {without_nccl}"
        )
    if workload.all_reduce is AllReduce.HIERARCHICAL and devices.count > 1 and devices.count % 2:
        # TensorFlow's cross_device_utils sums two halves of n // 2 replicas each, and silently drops the last one.
        return (
            f"all_reduce='hierarchical' needs an even number of devices, and there are {devices.count}: "
            "TensorFlow would ignore the gradients of one; use all_reduce='copy' or 'nccl'"
        )
    if parameters_on_gpu and not on_gpus:
        return (
            f"local_parameter_device='gpu' needs GPUs, and this test runs on {cpus}; "
            "leave it out to keep the parameters, or the sums of gradients, on the CPU"
        )
    # A parameter server that is the one device also trains the variables that it keeps.
    is_apart = nodes * devices.count > 1 or on_gpus is not parameters_on_gpu
    if workload.xla and update is VariableUpdate.PARAMETER_SERVER and is_apart:
        return "XLA can't compile a step whose variables are on another device; use variable_update='replicated'"
    if workload.xla and workload.trainer is Trainer.KERAS and devices.count > 1 and not by_nccl:
        return (
            "model.fit also compiles the update, and inside XLA replicas exchange gradients by NCCL only; use "
            "all_reduce='nccl' on GPUs, or trainer='loop' and a model that is not compiled"
        )
    return ""
