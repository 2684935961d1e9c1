"""The worker: takes a job, trains, and answers with windows until the driver closes the connection."""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.job import Job
from pytest_tfperf.training.devices import configure, limit_threads
from pytest_tfperf.training.environment import environment
from pytest_tfperf.training.failures import failure
from pytest_tfperf.training.inputs import InputSpec
from pytest_tfperf.training.loading import input_spec, load_model, load_pipeline, loop_for
from pytest_tfperf.training.loop import Loop
from pytest_tfperf.training.photographs import naming_corrupt
from pytest_tfperf.training.step_profile import profile_step
from pytest_tfperf.training.strategies import strategy_for
from pytest_tfperf.workers.wire import Channel, ConnectionLost


def work(channel: Channel, message: Mapping[str, Any]) -> int:
    """Do the job of the driver's message (`Job.to_json` under "job"); returns the process's exit status."""
    try:
        job = Job.from_json(message["job"])
        ready = _prepare(channel, job)
        channel.send(
            {
                "ready": {
                    "images_per_step": ready.loop.images_per_step,
                    "compile_seconds": ready.compile_seconds,
                    "fetches": ready.loop.fetch is not None,
                    "environment": environment(),
                }
            }
        )
        with _corrupt_records_named(job, ready.spec):
            _serve(channel, job, ready)
    except ConnectionLost:
        return 0  # the driver needs nothing more
    except BaseException as error:  # the driver reports whatever it was
        channel.send({"error": failure(error)})
        return 1
    return 0


class _Ready(NamedTuple):
    """A compiled step, and what it was made of."""

    loop: Loop
    strategy: tf.distribute.Strategy
    model: keras.Model
    spec: InputSpec
    compile_seconds: float


def _prepare(channel: Channel, job: Job) -> _Ready:
    """Everything before the first timed step; sends each phase's name, so that the driver knows which one fails."""

    def phase(name: str) -> None:
        channel.send({"phase": name})

    for kind, names in job.names.items():
        catalogue.register(kind, names)
    phase("devices")
    limit_threads(job.cores)
    strategy = strategy_for(job.workload, configure(job.devices))
    phase("model")
    model = load_model(job.workload, strategy, job.seed)
    phase("input pipeline")
    spec = input_spec(job.workload, model, strategy, job.seed, job.data_dir)
    inputs = load_pipeline(job.workload, spec)
    phase("compile")
    loop = loop_for(job.workload, strategy, model, inputs)
    started = time.perf_counter()
    with _corrupt_records_named(job, spec):
        loop.run(1)
    return _Ready(loop, strategy, model, spec, time.perf_counter() - started)


@contextmanager
def _corrupt_records_named(job: Job, spec: InputSpec) -> Iterator[None]:
    if not catalogue.reads_data(job.workload.input_pipeline):
        yield
        return
    with naming_corrupt(spec):
        yield


def _serve(channel: Channel, job: Job, ready: _Ready) -> None:
    """Answer each request, for a window or for the step's profile, until the driver closes the connection."""
    gc.collect()
    gc.freeze()  # a collection during a window would walk over all of TensorFlow's objects
    while True:
        request = channel.receive()
        if "steps" in request:
            channel.send({"window": _window(ready.loop, request["steps"], job.slowdown)})
        else:
            found = profile_step(ready.loop, ready.strategy, ready.model, job.workload, **request["profile_step"])
            channel.send({"step_profile": dataclasses.asdict(found)})


def _window(loop: Loop, steps: int, slowdown: float) -> dict[str, Any]:
    """The fields of `core.run.Window`."""
    started = time.perf_counter()
    loss = loop.run(steps)
    if slowdown:
        # To lose a fraction f of the throughput, a window must take f / (1 - f) of its own time longer.
        time.sleep((time.perf_counter() - started) * slowdown / (1 - slowdown))
    return {"steps": steps, "seconds": time.perf_counter() - started, "loss": loss}
