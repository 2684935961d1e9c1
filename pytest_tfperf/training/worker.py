"""The worker: takes a job, trains, and answers with windows until the driver closes the connection."""

from __future__ import annotations

import gc
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from pytest_tfperf.core.data_sets import IMAGES
from pytest_tfperf.core.figure import COLD_CACHES
from pytest_tfperf.core.job import Cluster, Job
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.profile import Input, StepProfile
from pytest_tfperf.core.topology import DeviceKind
from pytest_tfperf.core.workload import Trainer, VariableUpdate
from pytest_tfperf.hardware.host import usable_cores
from pytest_tfperf.training.devices import configure, limit_threads, require_logical
from pytest_tfperf.training.environment import environment, loaded_files
from pytest_tfperf.training.failures import failure
from pytest_tfperf.training.figures import WorkerFigures
from pytest_tfperf.training.horovod import Horovod
from pytest_tfperf.training.input_spec import described
from pytest_tfperf.training.inputs import spec_of_batch
from pytest_tfperf.training.loading import input_spec, load_model, load_own, load_pipeline, loop_for
from pytest_tfperf.training.loop import Loop, OwnLoop
from pytest_tfperf.training.op_times import trace_steps
from pytest_tfperf.training.photographs import naming_corrupt
from pytest_tfperf.training.step_profile import profile_step
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
        _lend(channel, job, cluster, cores, figures)
        return
    limit_threads(cores)
    devices = configure(job.devices, local_rank=0 if cluster is None else cluster.local_rank)
    if job.workload.trainer is Trainer.OWN:
        _train_own(channel, job, devices, figures)
    else:
        make_set_up = _SET_UPS[job.workload.variable_update]
        _train(channel, job, make_set_up(channel, job, devices, cluster), figures)


class SetUp(NamedTuple):
    """The strategy to train with, and the ranks that train together.

    Args:
        strategy: over the devices that this process trains on.
        cluster: the ranks, of which each reads batches of its own; None if only this process reads.
        horovod: exchanges gradients between the ranks.
    """

    strategy: tf.distribute.Strategy
    cluster: Cluster | None = None
    horovod: Horovod | None = None


def _alone(_: Channel, job: Job, devices: list[str], __: Cluster | None) -> SetUp:
    """`replicated` and `independent`: one process for all devices of this machine."""
    require_logical(job.devices)
    return SetUp(strategy_for(job.workload, devices))


def _parameter_server(channel: Channel, job: Job, devices: list[str], cluster: Cluster | None) -> SetUp:
    """Rank 0, which trains on the devices that all ranks lend; alone it is a process for all devices of a machine."""
    require_logical(job.devices)
    if cluster is not None:
        channel.send({"phase": "cluster"})  # from here on a rank may wait for the others
        devices = connect(cluster, devices)
    return SetUp(strategy_for(job.workload, devices))


def _horovod(channel: Channel, job: Job, devices: list[str], cluster: Cluster | None) -> SetUp:
    """A process for each device."""
    assert cluster is not None, "a job of Horovod is distributed"
    require_logical(job.devices)
    channel.send({"phase": "cluster"})
    horovod = Horovod(job.workload, cluster, on_gpus=job.devices.kind is DeviceKind.GPU)
    return SetUp(strategy_for(job.workload, devices), cluster, horovod)


def _collective(channel: Channel, job: Job, devices: list[str], cluster: Cluster | None) -> SetUp:
    """A process for each node."""
    if cluster is not None:
        channel.send({"phase": "cluster"})
    strategy = strategy_for(job.workload, devices, cluster)
    require_logical(job.devices)  # only now: collectives can't be configured once a device is touched
    return SetUp(strategy, cluster)


_SET_UPS = {
    VariableUpdate.REPLICATED: _alone,
    VariableUpdate.INDEPENDENT: _alone,
    VariableUpdate.PARAMETER_SERVER: _parameter_server,
    VariableUpdate.HOROVOD: _horovod,
    VariableUpdate.COLLECTIVE: _collective,
}


def _lend(channel: Channel, job: Job, cluster: Cluster, cores: int, figures: WorkerFigures) -> None:
    """Lend this rank's devices to rank 0, which trains on them."""
    configure(job.devices, local_rank=cluster.local_rank)  # the request for the peak memory must not touch other GPUs
    server = DeviceServer(cluster, job.devices, job.workload, cores)
    _answer(channel, server, job, 0.0, {}, lambda **_: StepProfile(input=Input.RESIDENT), figures)


def _train_own(channel: Channel, job: Job, devices: list[str], figures: WorkerFigures) -> None:
    """Run a user's own training."""
    require_logical(job.devices)
    channel.send({"phase": "model"})
    keras.utils.set_random_seed(job.seed)  # as `load_model` does: each run then has the same loss
    own = load_own(job.workload, devices)
    channel.send({"phase": "compile"})
    seconds = _first_step(own)
    _answer(channel, own, job, seconds, environment(), lambda **_: StepProfile(input=Input.OWN), figures)


def _train(channel: Channel, job: Job, set_up: SetUp, figures: WorkerFigures) -> None:
    """Build model and pipeline, compile a step, and answer requests."""
    workload, strategy, cluster = job.workload, set_up.strategy, set_up.cluster
    channel.send({"phase": "model"})
    model = load_model(workload, strategy, job.seed)
    if set_up.horovod is not None:
        set_up.horovod.broadcast(model)
    channel.send({"phase": "input pipeline"})
    spec = input_spec(workload, model, strategy, job.seed, job.data_dir, cluster)
    inputs = load_pipeline(workload, spec)
    channel.send({"phase": "compile"})
    loop = loop_for(workload, strategy, model, inputs, set_up.horovod)
    with naming_corrupt(spec) if catalogue.data_set_of(workload.input_pipeline) is IMAGES else nullcontext():
        with _showing_batches(inputs):
            seconds = _first_step(loop)
        host = cluster.hosts[cluster.rank] if cluster is not None and cluster.size > 1 else ""
        profile = partial(profile_step, loop, strategy, model, workload, host=host)
        software = environment() | (set_up.horovod.environment if set_up.horovod else {})
        _answer(channel, loop, job, seconds, software, profile, figures)


def _first_step(loop: Loop) -> float:
    """Seconds of the first step, which also traces and compiles."""
    started = time.perf_counter()
    loop.run(1)
    return time.perf_counter() - started


@contextmanager
def _showing_batches(inputs: Any) -> Iterator[None]:
    """Add the pipeline's spec to an error of the first step: most often model and pipeline do not fit each other."""
    try:
        yield
    except (ValueError, TypeError, KeyError, tf.errors.InvalidArgumentError) as error:
        error.add_note(f"the pipeline gives {described(spec_of_batch(inputs))}")
        raise


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
    figures.first_step_ended()
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
    is_first_window = True
    while True:
        request = channel.receive()
        if "steps" in request:
            window = _window(loop, request["steps"], job.slowdown)
            if is_first_window:
                is_first_window = False
                figures.first_window_ended(counts_traces=job.counts_traces)
            channel.send({"window": window})
        elif "trace" in request:
            channel.send({"trace": plain(trace_steps(loop, request["trace"]))})
        elif "figures" in request:
            channel.send({"figures": figures.values(request["figures"])})
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
