"""Which errors are a lack of memory: on GPUs it has many faces, since each library says it in its own way."""

from __future__ import annotations

import re

import tensorflow as tf

# What TensorFlow, XLA, CUDA, cuBLAS, cuDNN and NCCL write into errors of any type: cuDNN's "No algorithm worked!" is a
# NotFoundError, a failed copy to the GPU an InternalError. oneDNN's status 1 is `dnnl_out_of_memory`; its text has only
# the number.
_WORDS = re.compile(
    r"out of memory|RESOURCE_EXHAUSTED|CUDA_ERROR_OUT_OF_MEMORY|_ALLOC_FAILED|Dst tensor is not initialized|"
    r"received an exception:Status: 1,",
    re.IGNORECASE,
)

# What is left to say where cuBLAS, cuDNN, NCCL or CUDA itself find no room beside another process's memory. The first
# two are TensorFlow's own words for a library that gave it no handle.
_NO_ROOM = re.compile(
    r"No BLAS support|No DNN support|DNN library initialization failed|(CUDNN|CUBLAS)_STATUS_NOT_INITIALIZED|"
    r"unhandled cuda error|cudaSetDevice\(\) on GPU"
)
_TAKEN = ". Often another process holds the GPU's memory: nvidia-smi shows which"


def out_of_memory(error: BaseException | None) -> bool:
    """Whether this, or what led to it in a user's function, is a lack of memory."""
    while error is not None:
        if isinstance(error, (MemoryError, tf.errors.ResourceExhaustedError)):
            return True
        if isinstance(error, tf.errors.OpError) and _WORDS.search(str(error)):
            return True
        error = error.__cause__
    return False


def who_has_it(error: BaseException) -> str:
    """To be appended where a GPU's memory was taken before this process came, or may have been; else ""."""
    return _TAKEN if _NO_ROOM.search(str(error)) else ""
