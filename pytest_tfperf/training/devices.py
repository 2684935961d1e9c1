"""Which devices TensorFlow uses, and with how many threads; configured before it touches any of them."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

import tensorflow as tf

from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.errors import NotEnoughDevices

# What stays free on a GPU that is split: the limits of its parts do not include CUDA's context, the libraries'
# workspaces, and what the allocator rounds up.
_RESERVED_MIB = 1024
_RESERVED_FRACTION = 0.05
_MIB_IF_UNKNOWN = 4096


def limit_threads(cores: int) -> None:
    """Run at most `cores` threads if that is fewer than the affinity allows; call it before a device is touched.

    TensorFlow takes as many threads as the affinity has cores. If a container's quota is smaller, they use it up early
    in each period of 100 ms, and all of them stop for the rest of it.
    """
    if cores < len(os.sched_getaffinity(0)):
        tf.config.threading.set_intra_op_parallelism_threads(cores)
        tf.config.threading.set_inter_op_parallelism_threads(cores)


def max_threads() -> int:
    """The number of threads of this process that may compute at once."""
    return tf.config.threading.get_intra_op_parallelism_threads() or len(os.sched_getaffinity(0))


def configure(devices: Devices, *, local_rank: int = 0) -> list[str]:
    """Make `devices.count` logical devices; returns their names, such as "CPU:0", one for each replica.

    Call it before any device is touched; it touches none itself. The launcher decides which GPUs the process sees:
    CUDA_VISIBLE_DEVICES lists `devices.gpu_uuids` in their order. Several ranks on one host may see the GPUs of all.

    Raises:
        NotEnoughDevices: TensorFlow sees fewer GPUs than `devices` needs.
    """
    if devices.kind is DeviceKind.CPU:
        # A GPU that is visible would take the operations that have no device of their own.
        tf.config.set_visible_devices([], "GPU")
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices.count)
    else:
        _configure_gpus(devices, local_rank)
    return [f"{devices.kind.value}:{i}" for i in range(devices.count)]


def load_cusolver(packages: Path) -> None:
    """Load the libcusolver that pip installed into `packages`, so that TensorFlow finds it; it touches no GPU.

    TensorFlow 2.21 looks for CUDA's other libraries where pip installs them, but for this one only on the system, and
    ignores all GPUs without it.
    """
    for library in packages.glob("nvidia/cusolver/lib/libcusolver.so.*"):
        with suppress(OSError):
            ctypes.CDLL(str(library))


def _configure_gpus(devices: Devices, local_rank: int) -> None:
    load_cusolver(Path(tf.__file__).parents[1])
    physical = tf.config.list_physical_devices("GPU")
    needed = 1 if devices.split else devices.count
    _require_gpus(devices, needed, len(physical))
    before = local_rank * needed
    if before + needed <= len(physical):  # otherwise the ranks' starter shows each rank its own GPUs only
        physical = physical[before:]
    tf.config.set_visible_devices(physical[:needed], "GPU")
    if devices.split:
        free = _free_mib(devices)
        reserved = max(_RESERVED_MIB, int(free * _RESERVED_FRACTION))
        part = tf.config.LogicalDeviceConfiguration(memory_limit=max(256, (free - reserved) // devices.count))
        tf.config.set_logical_device_configuration(physical[0], [part] * devices.count)
    else:
        for gpu in physical[:needed]:
            # Without growth TensorFlow takes all of the memory, and a second worker on the same GPU dies.
            tf.config.experimental.set_memory_growth(gpu, True)


def require_logical(devices: Devices) -> None:
    """Raise NotEnoughDevices if TensorFlow has made fewer logical devices; this touches them all.

    TensorFlow leaves out a GPU that it has no code for only when it makes them.
    """
    _require_gpus(devices, devices.count, len(tf.config.list_logical_devices(devices.kind.value)))


def own_devices(kind: DeviceKind) -> list[str]:
    """Names of this process's logical devices; to the leader of a cluster TensorFlow lists those of all ranks."""
    with tf.device("CPU:0"):
        own = tf.DeviceSpec.from_string(tf.zeros([]).device)

    def is_own(name: str) -> bool:
        device = tf.DeviceSpec.from_string(name)
        return device.job is None or (device.job, device.task) == (own.job, own.task)  # none where there is no cluster

    return [device.name for device in tf.config.list_logical_devices(kind.value) if is_own(device.name)]


def _require_gpus(devices: Devices, needed: int, seen: int) -> None:
    if seen >= needed:
        return
    built_for = ", ".join(tf.sysconfig.get_build_info().get("cuda_compute_capabilities", [])) or "no GPU"
    raise NotEnoughDevices(
        f"TensorFlow {tf.__version__} sees {seen} GPU(s), and {needed} are needed ({', '.join(devices.gpu_uuids)})",
        next_step=f"It was built for {built_for}, and ignores older GPUs without an error. `tfperf doctor` says "
        "whether it is built for CUDA, and whether the driver or a CUDA library is missing or too old",
    )


def _free_mib(devices: Devices) -> int:
    # tf.config.experimental.get_memory_info would initialise the GPU, after which it can't be split.
    try:
        import pynvml

        pynvml.nvmlInit()
        gpu = pynvml.nvmlDeviceGetHandleByUUID(devices.gpu_uuids[0].encode())
        return int(pynvml.nvmlDeviceGetMemoryInfo(gpu).free) >> 20
    except Exception:  # NVML has a dozen error types, and a small estimate still works
        return _MIB_IF_UNKNOWN
