"""The worker: takes a job, trains, and answers with windows until the driver closes the connection."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import re
import site
import socket
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pytest_tfperf.core.data_sets import IMAGES
from pytest_tfperf.core.figure import COLD_CACHES, FIXED_STEP
from pytest_tfperf.core.job import Cluster, Job
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.profile import Input, StepProfile
from pytest_tfperf.core.speed_variables import FACT, speed_variables
from pytest_tfperf.core.topology import DeviceKind
from pytest_tfperf.core.workload import Trainer, VariableUpdate, Workload
from pytest_tfperf.hardware.host import usable_cores
from pytest_tfperf.training.devices import configure, limit_threads, own_devices, require_logical
from pytest_tfperf.training.failures import failure
from pytest_tfperf.training.horovod import Horovod
from pytest_tfperf.training.input_spec import described
from pytest_tfperf.training.inputs import spec_of_batch
from pytest_tfperf.training.loading import input_spec, load_model, load_own, load_pipeline, loop_for
from pytest_tfperf.training.loop import Loop, OwnLoop
from pytest_tfperf.training.photographs import naming_corrupt
from pytest_tfperf.training.process import PINNED
from pytest_tfperf.training.profiling import profile_step, trace_steps
from pytest_tfperf.training.strategies import DeviceServer, connect, strategy_for
from pytest_tfperf.workers import catalogue
from pytest_tfperf.workers.wire import Channel, ConnectionLost, reserve_port


def work(channel: Channel, message: Mapping[str, Any]) -> int:
    """Do the job of the driver's message (a `Job` under "job"); returns the process's exit status."""
    figures = WorkerFigures()
    try:
        _work(channel, build(Job, message["job"], "job"), figures)
    except ConnectionLost:
        return 0  # the driver needs nothing more
    except BaseException as error:  # the driver reports whatever it was
        channel.send({"error": failure(error)})
        return 1
    return 0


def _work(channel: Channel, job: Job, figures: WorkerFigures) -> None:
    """Do the job as its mode says; sends each phase's name, so that the driver knows what fails."""
    cluster, _port = _join(channel) if job.is_distributed else (None, None)
    cores = job.cores or usable_cores()
    if cluster is not None:
        job = job.for_rank(cluster.local_rank)
        # Ranks of one host would otherwise each start as many threads as it has cores.
        cores = max(1, cores // cluster.local_size)
    for kind, names in job.names.items():
        catalogue.register(kind, names)
    if job.cold_caches:
        for variable, value in COLD_CACHES.items():
            os.environ.setdefault(variable, value)
    channel.send({"phase": "devices"})
    if cluster is not None and cluster.rank > 0 and job.workload.variable_update is VariableUpdate.PARAMETER_SERVER:
        # Rank 0 trains on this rank's devices. The request for the peak memory must not touch other GPUs.
        configure(job.devices, local_rank=cluster.local_rank)
        server = DeviceServer(cluster, job.devices, job.workload, cores)
        _answer(channel, server, job, 0.0, {}, lambda **_: StepProfile(input=Input.RESIDENT), figures)
        return
    limit_threads(cores)
    devices = configure(job.devices, local_rank=0 if cluster is None else cluster.local_rank)
    if job.workload.trainer is Trainer.OWN:
        _train_own(channel, job, devices, figures)
    else:
        _train(channel, job, devices, cluster, figures)


def _train_own(channel: Channel, job: Job, devices: list[str], figures: WorkerFigures) -> None:
    require_logical(job.devices)
    channel.send({"phase": "model"})
    keras.utils.set_random_seed(job.seed)  # as `load_model` does: each run then has the same loss
    own = load_own(job.workload, devices)
    channel.send({"phase": "compile"})
    seconds = _first_step(own)
    _answer(channel, own, job, seconds, environment(), lambda **_: StepProfile(input=Input.OWN), figures)


def _train(channel: Channel, job: Job, devices: list[str], cluster: Cluster | None, figures: WorkerFigures) -> None:
    """Build strategy, model and pipeline, compile a step, and answer requests."""
    workload, update, horovod = job.workload, job.workload.variable_update, None
    if update is not VariableUpdate.COLLECTIVE:  # collectives can't be configured once a device is touched
        require_logical(job.devices)
    if cluster is not None:
        channel.send({"phase": "cluster"})  # from here on a rank may wait for the others
    if cluster is not None and update is VariableUpdate.PARAMETER_SERVER:
        devices = connect(cluster, devices)
        cluster = None  # this rank alone reads batches, for the devices of all
    elif cluster is not None and update is VariableUpdate.HOROVOD:
        horovod = Horovod(workload, cluster, on_gpus=job.devices.kind is DeviceKind.GPU)
    strategy = strategy_for(workload, devices, cluster)
    if update is VariableUpdate.COLLECTIVE:
        require_logical(job.devices)
    channel.send({"phase": "model"})
    model = load_model(workload, strategy, job.seed)
    if horovod is not None:
        horovod.broadcast(model)
    channel.send({"phase": "input pipeline"})
    spec = input_spec(workload, model, strategy, job.seed, job.data_dir, cluster)
    inputs = load_pipeline(workload, spec)
    channel.send({"phase": "compile"})
    loop = loop_for(workload, strategy, model, inputs, horovod)
    with naming_corrupt(spec) if catalogue.data_set_of(workload.input_pipeline) is IMAGES else nullcontext():
        try:
            seconds = _first_step(loop)
        except (ValueError, TypeError, KeyError, tf.errors.InvalidArgumentError) as error:
            # Most often model and pipeline do not fit each other.
            error.add_note(f"the pipeline gives {described(spec_of_batch(inputs))}")
            raise
        host = cluster.hosts[cluster.rank] if cluster is not None and cluster.size > 1 else ""
        profile = partial(profile_step, loop, strategy, model, workload, host=host)
        software = environment() | (horovod.environment if horovod else {})
        _answer(channel, loop, job, seconds, software, profile, figures)


def _first_step(loop: Loop) -> float:
    """Seconds of the first step, which also traces and compiles."""
    started = time.perf_counter()
    loop.run(1)
    return time.perf_counter() - started


def _answer(
    channel: Channel,
    loop: Loop,
    job: Job,
    compile_seconds: float,
    software: Mapping[str, str],
    profile: Callable[..., StepProfile],
    figures: WorkerFigures,
) -> None:
    """Say that the step is compiled, then answer requests until the driver closes the connection."""
    figures.first_step = time.perf_counter() - figures.arrived
    figures.step_ended(1, counts_traces=job.counts_traces)
    ready = {
        "examples_per_step": loop.examples_per_step,
        "unit": loop.unit,
        "replicas": loop.replicas,
        "compile_seconds": compile_seconds,
        "fetches": loop.fetch is not None or isinstance(loop, OwnLoop),  # a user's own training may read data
        "environment": software,
        "modules": loaded_files(job.workload) if job.reports_modules else {},
    }
    channel.send({"ready": ready})
    gc.collect()
    gc.freeze()  # a collection during a window would walk over all of TensorFlow's objects
    step = 1
    while True:
        request = channel.receive()
        if "steps" in request:
            window = _window(loop, request["steps"], job.slowdown)
            if step == 1:
                figures.first_window_ended()
            step += window["steps"]
            figures.step_ended(step, counts_traces=job.counts_traces)
            channel.send({"window": window})
        elif "trace" in request:
            channel.send({"trace": plain(trace_steps(loop, request["trace"]))})
        elif "figures" in request:
            channel.send({"figures": {name: getattr(figures, name) for name in request["figures"]}})
        else:
            channel.send({"step_profile": plain(profile(**request["profile_step"]))})


def _join(channel: Channel) -> tuple[Cluster, socket.socket]:
    """Reserve a port for this rank, and receive the addresses of all; the socket holds the port while it is open."""
    port, address = reserve_port(channel.own_host)
    channel.send({"address": address})
    cluster = build(Cluster, channel.receive()["cluster"], "cluster")
    # Otherwise gRPC would connect the ranks through the proxy that http_proxy names.
    os.environ["no_grpc_proxy"] = ",".join(address.rpartition(":")[0] for address in cluster.addresses)  # noqa: SIM112  # its name
    return cluster, port


def _window(loop: Loop, steps: int, slowdown: float) -> dict[str, Any]:
    """The fields of `core.run.Window`; of a slowed worker, with the time that a true slowdown would take."""
    loop.begin_window()
    started = time.perf_counter()
    loss = loop.run(steps)
    # Counted and not slept: while a worker sleeps, its input pipeline fills buffers, and the next window is faster.
    return {"steps": steps, "seconds": (time.perf_counter() - started) / (1 - slowdown), "loss": loss}


class WorkerFigures:
    """The figures that a worker measures of itself, by the names of core/figure.py, from the job's arrival on."""

    def __init__(self) -> None:
        self.first_step: float | None = None  # seconds until the model was built and compiled and had taken a step
        # traces after the first step and up to `FIXED_STEP`, of all functions that are alive after each
        self.compilations: float | None = None
        self._traces_before = 0.0
        self.arrived = time.perf_counter()
        with suppress(OSError):  # a fork begins with its own peak even where this is forbidden
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # proc(5): the peak is the present size
        self._memory_before = _kib("VmRSS")

    def step_ended(self, step: int, *, counts_traces: bool) -> None:
        """Count the traces so far, if this is the step from which or up to which they count."""
        if counts_traces and step == 1:
            self._traces_before = _traces()
        elif counts_traces and step == FIXED_STEP:
            self.compilations = _traces() - self._traces_before

    def first_window_ended(self) -> None:
        """Forget the peak of a GPU's memory so far: cuDNN's first steps need scratch."""
        for device in own_devices(DeviceKind.GPU):
            with suppress(ValueError, tf.errors.OpError):  # an allocator that keeps no statistics
                tf.config.experimental.reset_memory_stats(device)

    @property
    def peak_memory(self) -> float | None:
        """The peak of the memory so far, in bytes; None where neither TensorFlow nor the kernel reports it.

        On GPUs it is the most that TensorFlow's allocator had in use since the warm-up, of the device with the most. On
        CPUs it is how far the resident set has grown at most: a forked worker begins with all that the fork server has
        imported, and a fresh one with its own imports, and neither counts. The kernel keeps that peak, so no spike is
        missed. Pages shared with the fork server that are written to later are in both sizes, so they are not seen; nor
        is the memory of processes that the worker starts.
        """
        if gpus := own_devices(DeviceKind.GPU):
            try:
                return max(int(tf.config.experimental.get_memory_info(device)["peak"]) for device in gpus)
            except (ValueError, KeyError, tf.errors.OpError):  # an allocator that keeps no statistics
                return None
        peak = _kib("VmHWM")
        return None if peak is None or self._memory_before is None else max(0, peak - self._memory_before) * 1024


def _traces() -> float:
    """The number of traces of all living `tf.function`s, with the first trace of each."""
    gc.unfreeze()  # frozen objects are in no list
    kind = type(tf.function(lambda: None))
    traced = [candidate for candidate in gc.get_objects() if type(candidate) is kind]
    gc.freeze()  # a collection during a window would walk over all of them
    return float(sum(function.experimental_get_tracing_count() for function in traced))


def _kib(field: str) -> int | None:
    """A field of this process's status in KiB; None where the kernel has none, as gVisor's."""
    with suppress(OSError):
        if line := re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE):
            return int(line[1])
    return None


def environment() -> dict[str, str]:
    """Versions and settings of this process, name -> value, such as "tensorflow" -> "2.21.0".

    Call it after the first step: TensorFlow loads cuDNN and NCCL when they are first used.
    """
    build = tf.sysconfig.get_build_info()
    facts = {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
        "cuda_build": build.get("cuda_version", ""),
        "cudnn_build": build.get("cudnn_version", ""),
        "threads": str(tf.config.threading.get_intra_op_parallelism_threads() or ""),
        "tf32": tf32_in_use(os.environ),
        FACT: speed_variables({name: value for name, value in os.environ.items() if name not in PINNED}),
    }
    return {name: value for name, value in facts.items() if value} | loaded_libraries()


def tf32_in_use(variables: Mapping[str, str]) -> str:
    """Whether float32 factors are rounded to TF32: "on", "off", or "" if no visible GPU has TF32."""
    capabilities = [
        tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0))
        for gpu in tf.config.get_visible_devices("GPU")
    ]
    if not any(capability >= (8, 0) for capability in capabilities):
        return ""
    # NVIDIA's libraries obey this variable, whatever TensorFlow says.
    forbidden = variables.get("NVIDIA_TF32_OVERRIDE") == "0"
    return "on" if tf.config.experimental.tensor_float_32_execution_enabled() and not forbidden else "off"


# The start of a library's file name -> its name in the environment, and the function that gives its version.
_LIBRARIES = {
    "libcudnn": ("cudnn_loaded", "cudnnGetVersion"),
    "libcublasLt": ("cublas_loaded", "cublasLtGetVersion"),
    "libnccl": ("nccl_loaded", "ncclGetVersion"),
}


def loaded_libraries(maps: Path = Path("/proc/self/maps")) -> dict[str, str]:
    """Name -> version as the library's own number, such as "cudnn_loaded" -> "90300"; loads none itself.

    TensorFlow may have been built with other versions, because pip can replace them separately.
    """
    lines = maps.read_text("utf-8", "replace").splitlines()
    versions = {}
    for path in sorted({line[line.index("/") :] for line in lines if "/" in line}):
        name, function = _LIBRARIES.get(Path(path).name.partition(".so")[0], ("", ""))
        if name:
            with suppress(OSError, AttributeError):  # the file was replaced since, or lacks the function
                call = getattr(ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY), function)
                if name == "nccl_loaded":
                    number = ctypes.c_int()  # NCCL writes it where the argument points
                    call(ctypes.byref(number))
                    versions[name] = str(number.value)
                else:
                    versions[name] = str(call())
    return versions


def loaded_files(workload: Workload) -> dict[str, str]:
    """Module -> file, links followed: the workload's own modules, top-level modules, and all that pip did not install.

    Left out are modules inside of installed packages, of which there are thousands, and this package.
    """
    targets = [catalogue.resolve(field, getattr(workload, field)) for field in ("model", "input_pipeline")]
    named = {target.partition(":")[0] for target in targets}
    files: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name.partition(".")[0] == "pytest_tfperf":
            continue
        if name in named or "." not in name or not file.startswith(_INSTALLED):
            files[name] = os.path.realpath(file)
    return files


_PATHS = (*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),)
_INSTALLED = tuple(
    f"{folder}{os.sep}" for folder in {*_PATHS, *site.getsitepackages(), site.getusersitepackages()} if folder
)
