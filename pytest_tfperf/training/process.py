"""What a process of ours does to itself before it works: it dies with its parent and logs to its own file."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_tfperf.workers.wire import Address, Channel, connect

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when its parent dies, however it dies (prctl(2); Linux only).

    `parent_pid` is the parent as the caller knew it: one that died before the call would never be noticed.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, by)
    if os.getppid() != parent_pid:
        os._exit(1)


def compute_as_asked() -> None:
    """Pin what the user's shell could have TensorFlow and Keras do otherwise; before they are imported.

    A workload's `xla` alone decides on XLA: in TF_XLA_FLAGS auto-clustering would override TensorFlow's own
    configuration. And whatever Keras computes with elsewhere, here it is TensorFlow.
    """
    os.environ["TF_XLA_FLAGS"] = "--tf_xla_auto_jit=-1"
    os.environ["KERAS_BACKEND"] = "tensorflow"


def import_tensorflow() -> dict[str, Any]:
    """Import it, and return what to tell the driver: the versions, or why there are none."""
    try:
        import keras
        import tensorflow as tf
    except Exception as error:  # of a build that doesn't fit its libraries anything may come
        return {"failed": f"{type(error).__name__}: {error}"}
    return {"imported": {"tensorflow": tf.__version__, "keras": keras.__version__}}


def call_driver(address: Address, job: Mapping[str, Any]) -> Channel:
    """A worker's channel to its driver, who knows by then whose it is."""
    channel = connect(address)
    channel.send({"hello": "worker", "number": job["number"], "pid": os.getpid()})
    return channel


def become_worker(log: Path, environment: Mapping[str, str], import_paths: Sequence[str]) -> None:
    """Take a log file, an environment and import paths of one's own; SIGUSR1 then writes all stacks to the log.

    The process also volunteers for the kernel's out-of-memory killer, which else might choose pytest.
    """
    with suppress(PermissionError):  # a fresh interpreter leads its session already
        os.setsid()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    os.close(null)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115  # lives as long as the process
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.environ.pop("TF_FORCE_GPU_ALLOW_GROWTH", None)  # the job's devices say how a GPU's memory is taken
    tempfile.tempdir = None  # the server may have looked it up before, in its own environment
    compute_as_asked()
    sys.path += [path for path in import_paths if path not in sys.path]
    faulthandler.enable(sys.stderr)
    faulthandler.register(signal.SIGUSR1, file=sys.stderr, all_threads=True)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
