"""Which GPUs a build of TensorFlow has kernels for; it says so itself in its log at best."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

Capability = tuple[int, int]


def advice(error: BaseException) -> str:
    """To be appended to TensorFlow's error where it may lack kernels for a GPU that this process sees; else ""."""
    if not isinstance(error, tf.errors.OpError):
        return ""
    try:
        return _without_kernels(_built_for())
    except (RuntimeError, ValueError, tf.errors.OpError):  # what failed may fail again; the error itself matters more
        return ""


def left_out() -> str:
    """Which GPUs TensorFlow leaves out as if they were not there; "" where the build doesn't say."""
    built_for = _built_for()
    if not built_for:
        return ""
    return (
        f" It was built for {', '.join(built_for)}, and leaves older GPUs out without an error; a driver too old for "
        f"its CUDA {tf.sysconfig.get_build_info().get('cuda_version', '')} hides them all"
    )


def has_kernels(built_for: Sequence[str], capability: Capability) -> bool:
    """Whether code runs as it was compiled: sm_80 on 8.0 and up, but not on 9.0; code for compute_90 is for 9.0, too.

    On newer GPUs that is compiled when it is first used, for up to half an hour, and not all of it works: "no".
    """
    return any(
        major == capability[0] and minor <= capability[1] for major, minor in (_capability(code) for code in built_for)
    )


def _without_kernels(built_for: Sequence[str]) -> str:
    for gpu in tf.config.get_visible_devices("GPU"):
        capability = tf.config.experimental.get_device_details(gpu).get("compute_capability")
        if built_for and capability and not has_kernels(built_for, capability):
            return (
                f". {gpu.name.rpartition('device:')[2]} has compute capability {capability[0]}.{capability[1]}, and "
                f"this TensorFlow {tf.__version__} was built for {', '.join(built_for)}: take one with this GPU's"
            )
    return ""


def _built_for() -> list[str]:
    return list(tf.sysconfig.get_build_info().get("cuda_compute_capabilities", []))


def _capability(code: str) -> Capability:
    """ "sm_89" and "compute_120" are 8.9 and 12.0; "sm_90a" is 9.0."""
    digits = "".join(letter for letter in code if letter.isdigit())
    return int(digits[:-1] or 0), int(digits[-1:] or 0)
