"""What TensorFlow is to see, said before it touches any device."""

from __future__ import annotations

import os

import tensorflow as tf

from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.errors import NotEnoughDevices, WorkloadError
from pytest_tfperf.training.architectures import left_out

# What stays free on a GPU that is split: CUDA's own context and the libraries' workspaces live outside the limits, as
# does what an allocator rounds up.
_MIB_KEPT_FREE = 1024
_FRACTION_KEPT_FREE = 0.05
_MIB_WHERE_UNKNOWN = 4096


def keep_to_quota(cores: int | None) -> None:
    """Where a container's quota leaves fewer cores than the affinity says, run no more threads than these.

    TensorFlow counts the cores of the affinity. More threads than the quota use it up early in each period of 100 ms,
    and all of them stand still for the rest. Must run before anything touches a device.
    """
    if cores is not None and cores < len(os.sched_getaffinity(0)):
        tf.config.threading.set_intra_op_parallelism_threads(cores)
        tf.config.threading.set_inter_op_parallelism_threads(cores)


def cores_for_threads() -> int:
    """How many threads of ours may compute at once."""
    return tf.config.threading.get_intra_op_parallelism_threads() or len(os.sched_getaffinity(0))


def configure(devices: Devices) -> list[str]:
    """Make `devices.count` logical devices and return their names, such as "CPU:0", one for each replica.

    Must run before anything touches a device. Which GPUs the process can see is the launcher's business
    (CUDA_VISIBLE_DEVICES holds `devices.gpu_uuids`, in their order).

    Raises:
        NotEnoughDevices: TensorFlow sees fewer devices than `devices` asks for.
        WorkloadError: the devices were in use already, so that they can't be configured any more.
    """
    if devices.count < 1:
        raise WorkloadError(f"count={devices.count}: a run needs at least 1 device")
    try:
        _configure_cpus(devices) if devices.kind is DeviceKind.CPU else _configure_gpus(devices)
    except RuntimeError as e:
        raise WorkloadError(
            f"devices can't be configured any more: {e}. "
            "Call configure() once in a process, before any other TensorFlow code"
        ) from e
    return _names(devices)


def _configure_cpus(devices: Devices) -> None:
    # A GPU that is visible would take the operations that have no device of their own.
    tf.config.set_visible_devices([], "GPU")
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices.count)


def _configure_gpus(devices: Devices) -> None:
    physical = tf.config.list_physical_devices("GPU")
    needed = 1 if devices.split else devices.count
    if len(physical) < needed:
        raise NotEnoughDevices(_too_few(devices, needed, len(physical)))
    tf.config.set_visible_devices(physical[:needed], "GPU")
    if devices.split:
        limit = _mib_for_each(devices)
        parts = [tf.config.LogicalDeviceConfiguration(memory_limit=limit)] * devices.count
        tf.config.set_logical_device_configuration(physical[0], parts)
        return
    for gpu in physical[:needed]:
        # Without growth TensorFlow takes all of the memory, and a second worker on the same GPU dies.
        tf.config.experimental.set_memory_growth(gpu, True)


def _mib_for_each(devices: Devices) -> int:
    """MiB of the GPU's memory for each logical device."""
    free = _gpu_mib(devices)
    return max(256, (free - max(_MIB_KEPT_FREE, int(free * _FRACTION_KEPT_FREE))) // devices.count)


def _gpu_mib(devices: Devices) -> int:
    # tf.config.experimental.get_memory_info would initialise the GPU, after which it can't be split.
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            if devices.gpu_uuids:
                handle = pynvml.nvmlDeviceGetHandleByUUID(devices.gpu_uuids[0])
            else:
                handle = pynvml.nvmlDeviceGetHandleByIndex(0)
            return int(pynvml.nvmlDeviceGetMemoryInfo(handle).free) >> 20
        finally:
            pynvml.nvmlShutdown()
    except Exception:  # NVML has a dozen error types, and a worker without it can still split, by a modest guess.
        return _MIB_WHERE_UNKNOWN


def _names(devices: Devices) -> list[str]:
    logical = tf.config.list_logical_devices(devices.kind.value)
    if len(logical) < devices.count:
        raise NotEnoughDevices(_too_few(devices, devices.count, len(logical)))
    return [f"{devices.kind.value}:{i}" for i in range(devices.count)]


def _too_few(devices: Devices, needed: int, seen: int) -> str:
    asked = f" ({', '.join(devices.gpu_uuids)})" if devices.gpu_uuids else ""
    return f"TensorFlow {tf.__version__} sees {seen} {devices.kind.value} device(s), {needed} asked for{asked}. " + (
        "Is this TensorFlow built for CUDA (pip install 'tensorflow[and-cuda]'), and does its log say that the driver "
        "or a CUDA library is missing?" + left_out()
        if devices.kind is DeviceKind.GPU
        else "Were virtual devices configured earlier in this process?"
    )
