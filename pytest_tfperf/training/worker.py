"""The worker: a job in, windows out. Runs in a fork of the server, or in a fresh interpreter."""

from __future__ import annotations

import gc
import os
import platform
import time
import traceback
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.image_data import Data, OnCorrupt
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.training.architectures import advice
from pytest_tfperf.training.corrupt import naming_corrupt
from pytest_tfperf.training.devices import configure, keep_to_quota
from pytest_tfperf.training.inputs import InputSpec
from pytest_tfperf.training.libraries import loaded
from pytest_tfperf.training.loading import input_spec, load_model, load_pipeline
from pytest_tfperf.training.out_of_memory import out_of_memory, who_has_it
from pytest_tfperf.training.precision import tf32_in_use
from pytest_tfperf.training.skipped import Skipped
from pytest_tfperf.training.step_profile import examine
from pytest_tfperf.training.strategies import strategy_for
from pytest_tfperf.training.trainers import Windows, trainer_for
from pytest_tfperf.training.variables import speed_variables
from pytest_tfperf.workers.wire import Channel, ConnectionLost

_MOST_TEXT = 20_000  # TensorFlow's frames are long, and the cause stands below them


def work(channel: Channel, job: dict[str, Any]) -> int:
    """Do a job for the driver at the other end; returns the process's exit status."""
    try:
        ready = _prepare(channel, job)
        channel.send(
            {
                "ready": {
                    "images_per_step": ready.loop.images_per_step,
                    "compile_seconds": ready.compile_seconds,
                    "fetches": ready.loop.fetch is not None,
                    "environment": versions() | _settings(),
                }
            }
        )
        with _faults_named(job, ready.spec):
            _serve(channel, ready, job["slowdown"])
    except ConnectionLost:
        return 0  # the driver has what it wants
    except BaseException as error:  # the driver reports whatever it was
        channel.send({"error": _told(error)})
        return 1
    return 0


def _told(error: BaseException) -> dict[str, Any]:
    """What the driver makes a message of; the log gets the traceback, of our own errors that of what led to them."""
    ours = isinstance(error, TfperfError)
    traceback.print_exception(error.__cause__ if ours and error.__cause__ else error)
    text = str(error)
    return {
        "type": type(error).__name__,
        "message": text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT // 2]}\n...\n{text[-_MOST_TEXT // 2 :]}",
        "hint": who_has_it(error) or advice(error),
        "ours": ours,
        "out_of_memory": out_of_memory(error),
    }


def versions() -> dict[str, str]:
    """What this process computes with, by the names that people look for in a failure."""
    build = tf.sysconfig.get_build_info()
    found = {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
        "cuda_build": build.get("cuda_version", ""),
        "cudnn_build": build.get("cudnn_version", ""),
    }
    return {name: version for name, version in found.items() if version}


def _settings() -> dict[str, str]:
    """What decides on speed beside the versions, after the first step; asks devices: nothing for the fork server."""
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    found = {
        "threads": str(threads or ""),
        "tf32": tf32_in_use(),
        "xla_flags": os.environ.get("XLA_FLAGS", "").strip().replace(" ", "_"),
        "variables": speed_variables(os.environ),
    }
    return {name: value for name, value in found.items() if value} | loaded()


class _Ready(NamedTuple):
    """A compiled step, and what it was made of."""

    loop: Windows
    strategy: tf.distribute.Strategy
    model: keras.Model
    workload: Workload
    spec: InputSpec
    compile_seconds: float


def _prepare(channel: Channel, job: dict[str, Any]) -> _Ready:
    """Everything before the first timed step, told phase by phase so that a fault has a place."""

    def phase(name: str) -> None:
        channel.send({"phase": name})

    for room, names in job["names"].items():
        catalogue.register(room, names)
    workload = Workload(**job["workload"])
    phase("devices")
    devices = job["devices"]
    keep_to_quota(job["cores"])
    names = configure(Devices(**devices | {"kind": DeviceKind(devices["kind"])}))
    strategy = strategy_for(workload, names)
    phase("model")
    model = load_model(workload, strategy, job["seed"])
    phase("input pipeline")
    data = job["data"]
    data = Data(**data | {"on_corrupt": OnCorrupt(data["on_corrupt"])})
    spec = input_spec(workload, model, strategy, job["seed"], data)
    inputs = load_pipeline(workload, spec)
    phase("compile")
    loop = trainer_for(strategy, model, inputs, workload)
    started = time.perf_counter()
    with _faults_named(job, spec):
        loop.run(1)
    return _Ready(loop, strategy, model, workload, spec, time.perf_counter() - started)


def _faults_named(job: dict[str, Any], spec: InputSpec) -> AbstractContextManager[None]:
    # A model's own fault must not be looked for in a data set that nothing reads.
    return naming_corrupt(spec) if catalogue.reads_data(Workload(**job["workload"])) else nullcontext()


def _serve(channel: Channel, ready: _Ready, slowdown: float) -> None:
    """Run each window that is asked for, then say what the step is made of, until the driver hangs up."""
    gc.collect()
    gc.freeze()  # no collection in mid-window walks over all that TensorFlow has made
    while "steps" in (message := channel.receive()):
        channel.send({"window": _window(ready.loop, message["steps"], slowdown, ready.spec.skipped)})
    while True:
        parts = examine(ready.loop, ready.strategy, ready.model, ready.workload, **message["examine"])
        channel.send({"parts": parts})
        message = channel.receive()  # mostly the driver hangs up


def _window(loop: Windows, steps: int, slowdown: float, skipped: Skipped) -> dict[str, Any]:
    started = time.perf_counter()
    loss = loop.run(steps)
    if slowdown:
        # Losing a fraction f of the throughput takes f / (1 - f) of the window's own time on top of it.
        time.sleep((time.perf_counter() - started) * slowdown / (1 - slowdown))
    seconds = time.perf_counter() - started
    return {"steps": steps, "seconds": seconds, "loss": loss, "skipped": str(skipped) if skipped else ""}
