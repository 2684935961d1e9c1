"""The message to the driver about an exception in a worker: its text, whether memory was short, and a likely cause."""

from __future__ import annotations

import ctypes
import os
import re
import traceback
from contextlib import suppress
from typing import Any

import tensorflow as tf

from pytest_tfperf.errors import TfperfError, UnknownFunction
from pytest_tfperf.lines import lines_of, plain
from pytest_tfperf.workers.failures import is_full

_MAX_CHARACTERS = 20_000  # TensorFlow's stack frames are long, and the cause stands below them

# TensorFlow, XLA, CUDA, cuBLAS, cuDNN and NCCL write this into errors of any type if memory is short: cuDNN's "No
# algorithm worked!" is a NotFoundError, a failed copy to the GPU an InternalError. oneDNN's status 1 is
# `dnnl_out_of_memory`; its text has only the number.
_OUT_OF_MEMORY = re.compile(
    r"out of memory|RESOURCE_EXHAUSTED|CUDA_ERROR_OUT_OF_MEMORY|_ALLOC_FAILED|Dst tensor is not initialized|"
    r"failed to allocate (the )?(scratch|requested memory)|No-scratch fallback runner|received an exception:Status: 1,",
    re.IGNORECASE,
)

# CUDA has no code for the GPU: TensorFlow holds none, or PTX that the driver can't compile.
_NO_CODE = re.compile(r"CUDA_ERROR_(INVALID_PTX|INVALID_HANDLE|NO_BINARY_FOR_GPU|UNSUPPORTED_PTX_VERSION)")

# TensorFlow's collectives and cluster, and Horovod's Gloo, write this of a rank that is gone. A pipeline that reads
# from another machine raises errors of the same types.
_PEER = re.compile(
    r"Collective|HorovodInternalError|Horovod (has been shut down|initialization failed)|gloo/|/job:worker/|"
    r"failed to connect to all addresses",
    re.IGNORECASE,
)


def failure(error: BaseException) -> dict[str, Any]:
    """The message to the driver; also prints the traceback to the log.

    For an error of this package that another one caused, the log gets the traceback of the cause.
    """
    ours = error if isinstance(error, TfperfError) else None
    traceback.print_exception(error.__cause__ if ours and error.__cause__ else error)
    about_a_peer = isinstance(error, (tf.errors.OpError, ValueError)) and _PEER.search(str(error)) is not None
    if not about_a_peer:  # after an error about a peer TensorFlow may abort, and the driver would blame this rank
        with suppress(OSError):
            os.fsync(2)  # on NFS the driver would not see it until the log is closed
    text, half = plain(lines_of(ours.headline)) if ours else str(error), _MAX_CHARACTERS // 2
    return {
        "type": type(error).__name__,
        "message": text if len(text) <= _MAX_CHARACTERS else f"{text[:half]}\n...\n{text[-half:]}",
        "below": [str(line) for line in lines_of(*ours.below)] if ours else [],
        "hint": hint(error, cuda_of_driver()),
        "ours": ours is not None,
        "next_step": ours.next_step if ours else "",
        "out_of_memory": is_out_of_memory(error),
        "about_a_peer": about_a_peer,
        "missing": isinstance(error, UnknownFunction),
    }


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether this error, or one that caused it in a user's function, is a lack of memory."""
    while error is not None:
        text, is_short = str(error), isinstance(error, (MemoryError, tf.errors.ResourceExhaustedError))
        # TensorFlow gives a full disk and too many open files the code of a lack of memory.
        if not is_full(text) and (is_short or (isinstance(error, tf.errors.OpError) and _OUT_OF_MEMORY.search(text))):
            return True
        error = error.__cause__
    return False


def hint(error: BaseException, driver_cuda: tuple[int, int] | None) -> str:
    """A likely cause that only TensorFlow's build explains, to be appended to the error's text; "" if none is known.

    `workers.failures` has the others. `driver_cuda` is as `cuda_of_driver` returns it.
    """
    text, build = str(error), tf.sysconfig.get_build_info()
    if not _NO_CODE.search(text):
        return ""
    cuda = build.get("cuda_version", "")
    needed = tuple(int(part) for part in cuda.split(".")[:2] if part.isdecimal())
    if "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" in text or (driver_cuda is not None and driver_cuda < needed):
        knows = "" if driver_cuda is None else f", and this one knows CUDA {driver_cuda[0]}.{driver_cuda[1]}"
        return (
            f". This TensorFlow's code for the GPU must be compiled by a driver of CUDA {cuda or 'its version'} or "
            f"newer{knows}: update the driver. `tfperf doctor` says more"
        )
    built_for = ", ".join(build.get("cuda_compute_capabilities", []))
    return f". Is the GPU newer than this TensorFlow, which was built for {built_for}? Then use a newer TensorFlow"


def cuda_of_driver() -> tuple[int, int] | None:
    """The newest CUDA that this machine's driver knows, (12, 4); None without a driver. It touches no GPU."""
    version = ctypes.c_int()
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return version.value // 1000, version.value % 1000 // 10
