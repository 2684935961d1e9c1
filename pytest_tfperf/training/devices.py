"""Which devices TensorFlow uses, and with how many threads; configured before it touches any of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import tensorflow as tf

from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.errors import NotEnoughDevices, WorkloadError

# What stays free on a GPU that is split: the limits of its parts do not include CUDA's context, the libraries'
# workspaces, and what the allocator rounds up.
_RESERVED_MIB = 1024
_RESERVED_FRACTION = 0.05
_MIB_IF_UNKNOWN = 4096


def limit_threads(cores: int | None) -> None:
    """Run at most `cores` threads if that is fewer than the affinity allows; call it before a device is touched.

    TensorFlow takes as many threads as the affinity has cores. If a container's quota is smaller, they use it up early
    in each period of 100 ms, and all of them stop for the rest of it.
    """
    if cores is not None and cores < len(os.sched_getaffinity(0)):
        tf.config.threading.set_intra_op_parallelism_threads(cores)
        tf.config.threading.set_inter_op_parallelism_threads(cores)


def max_threads() -> int:
    """How many threads of this process may compute at once."""
    return tf.config.threading.get_intra_op_parallelism_threads() or len(os.sched_getaffinity(0))


def configure(devices: Devices, free_mib: Callable[[Devices], int] | None = None) -> list[str]:
    """Make `devices.count` logical devices; returns their names, such as "CPU:0", one for each replica.

    Call it before any device is touched. The launcher decides which GPUs the process sees: CUDA_VISIBLE_DEVICES lists
    `devices.gpu_uuids` in their order.

    Args:
        devices: what to configure.
        free_mib: gives the free memory of the GPU that is split; None: NVML does.

    Raises:
        NotEnoughDevices: TensorFlow sees fewer devices than `devices` needs.
        WorkloadError: the devices were in use already, so that they can't be configured any more.
    """
    if devices.count < 1:
        raise WorkloadError(f"count={devices.count}: a run needs at least 1 device")
    try:
        if devices.kind is DeviceKind.CPU:
            _configure_cpus(devices)
        else:
            _configure_gpus(devices, free_mib or _free_mib)
    except RuntimeError as e:
        raise WorkloadError(
            f"devices can't be configured any more: {e}. "
            "Call configure() once in a process, before any other TensorFlow code"
        ) from e
    logical = tf.config.list_logical_devices(devices.kind.value)
    if len(logical) < devices.count:
        raise NotEnoughDevices(_too_few(devices, devices.count, len(logical)))
    return [f"{devices.kind.value}:{i}" for i in range(devices.count)]


def missing_kernels() -> str:
    """A sentence about the first visible GPU that this build of TensorFlow has no kernels for; "" if there is none."""
    built_for = _built_for()
    for gpu in tf.config.get_visible_devices("GPU"):
        capability = tf.config.experimental.get_device_details(gpu).get("compute_capability")
        if built_for and capability and not has_kernels(built_for, capability):
            return (
                f"{gpu.name.rpartition('device:')[2]} has compute capability {capability[0]}.{capability[1]}, and "
                f"this TensorFlow {tf.__version__} was built for {', '.join(built_for)}: "
                "install one that was built for this GPU"
            )
    return ""


def has_kernels(built_for: Sequence[str], capability: tuple[int, int]) -> bool:
    """Whether a GPU of this compute capability runs code of the build without compiling it first.

    sm_80 runs on 8.0 to 8.9, compute_90 on 9.x. For newer GPUs TensorFlow compiles compute_90 when a kernel is first
    used, which takes up to half an hour and does not work for all of it: that counts as "no".
    """
    codes = (_capability(code) for code in built_for)
    return any(major == capability[0] and minor <= capability[1] for major, minor in codes)


def _configure_cpus(devices: Devices) -> None:
    # A GPU that is visible would take the operations that have no device of their own.
    tf.config.set_visible_devices([], "GPU")
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices.count)


def _configure_gpus(devices: Devices, free_mib: Callable[[Devices], int]) -> None:
    physical = tf.config.list_physical_devices("GPU")
    needed = 1 if devices.split else devices.count
    if len(physical) < needed:
        raise NotEnoughDevices(_too_few(devices, needed, len(physical)))
    tf.config.set_visible_devices(physical[:needed], "GPU")
    if devices.split:
        free = free_mib(devices)
        reserved = max(_RESERVED_MIB, int(free * _RESERVED_FRACTION))
        part = tf.config.LogicalDeviceConfiguration(memory_limit=max(256, (free - reserved) // devices.count))
        tf.config.set_logical_device_configuration(physical[0], [part] * devices.count)
        return
    for gpu in physical[:needed]:
        # Without growth TensorFlow takes all of the memory, and a second worker on the same GPU dies.
        tf.config.experimental.set_memory_growth(gpu, True)


def _free_mib(devices: Devices) -> int:
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
    except Exception:  # NVML has a dozen error types, and without it a small estimate still works
        return _MIB_IF_UNKNOWN


def _too_few(devices: Devices, needed: int, seen: int) -> str:
    named = f" ({', '.join(devices.gpu_uuids)})" if devices.gpu_uuids else ""
    fact = f"TensorFlow {tf.__version__} sees {seen} {devices.kind.value} device(s), and {needed} are needed{named}. "
    if devices.kind is DeviceKind.CPU:
        return fact + "Were virtual devices configured earlier in this process?"
    built_for = ", ".join(_built_for()) or "no GPU"
    return (
        f"{fact}It was built for {built_for}, and ignores older GPUs without an error. Is it built for CUDA "
        "(pip install 'tensorflow[and-cuda]'), and does its log say that the driver or a CUDA library is missing?"
    )


def _built_for() -> list[str]:
    return list(tf.sysconfig.get_build_info().get("cuda_compute_capabilities", []))


def _capability(code: str) -> tuple[int, int]:
    """ "sm_89" and "compute_120" are 8.9 and 12.0; "sm_90a" is 9.0."""
    digits = "".join(letter for letter in code if letter.isdigit())
    return int(digits[:-1] or 0), int(digits[-1:] or 0)
