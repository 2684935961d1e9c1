"""In the place of TensorFlow, for sessions that are not about training: workers that start at once and play steps.

All else is real: the session, its launcher, the fork server and its processes, and what they say to each other. On
PYTHONPATH a fork server imports this, and with it the worker below in the place of `pytest_tfperf.training.worker`.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_tfperf.core.job import Job
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.profile import Input, StepProfile
from pytest_tfperf.workers.wire import Channel, ConnectionLost

__version__ = "2.21.0"

MEBIBYTES = int(os.environ.get("PLAYED_MEBIBYTES", "200"))
"""Of a worker, as another Python may say it; read at the import, because a worker's environment is pytest's."""

PACE = float(os.environ.get("PLAYED_PACE", "1"))
"""Multiplies the seconds of each step; another Python, such as a reference environment's, may have another pace."""

SLOW_SECONDS = 0.05
"""A step that takes its time, so that there is time to see how far it is, and what else the machine does."""

RAISED = {
    "type": "ValueError",
    "message": "the layers do not fit",
    "below": [],
    "hint": "",
    "out_of_memory": False,
    "ours": False,
    "about_a_peer": False,
}


def work(channel: Channel, message: dict[str, Any]) -> int:
    """Play the job of the driver's message; returns the process's exit status."""
    job = build(Job, message["job"], "job")
    model = job.workload.model.removeprefix("nets:")
    channel.send({"phase": "model"})
    if model == "raising":
        channel.send({"error": RAISED})
        return 1
    if model == "once" and not _is_first(model):
        os.kill(os.getpid(), signal.SIGKILL)
    if model == "with_a_child":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    channel.send({"phase": "compile"})
    ready = {
        "examples_per_step": job.workload.batch_size * job.devices.count,
        "unit": "images",
        "replicas": job.devices.count,
        "compile_seconds": 0.5,
        "fetches": False,
        "environment": {"python": "3.11.9", "tensorflow": __version__, "keras": "3.15.0"},
    }
    channel.send({"ready": ready})
    with suppress(ConnectionLost):  # the driver needs nothing more
        _answer(channel, job, _step_seconds(job) * PACE)
    return 0


def _answer(channel: Channel, job: Job, step_seconds: float) -> None:
    noise = cycle((1.0, 1.001, 0.999))
    while True:
        request = channel.receive()
        if "figures" in request:
            known = {"peak_memory": _mebibytes(job) * 2**20, "first_step": 0.75, "compilations": 0}
            channel.send({"figures": {name: known[name] for name in request["figures"]}})
        elif "steps" in request:
            window = _window(job, request["steps"], step_seconds)
            channel.send({"window": window | {"seconds": window["seconds"] * next(noise)}})
        else:
            channel.send({"step_profile": plain(StepProfile(input=Input.RESIDENT))})


def _mebibytes(job: Job) -> int:
    """More for the model `hungry`."""
    return 400 if job.workload.model == "nets:hungry" else MEBIBYTES


def _window(job: Job, steps: int, step_seconds: float) -> dict[str, Any]:
    if job.workload.input_pipeline == "nets:stalling":
        Path("stalled").touch()
        time.sleep(3600)
    if step_seconds == SLOW_SECONDS:
        time.sleep(steps * step_seconds)
    loss = {"nets:nan": math.nan, "nets:wrong": 1.1}.get(job.workload.model, 1.0)
    return {"steps": steps, "seconds": steps * step_seconds / (1 - job.slowdown), "loss": loss}


def _step_seconds(job: Job) -> float:
    """1 ms; for `even` and `uneven` what the file of that name begins with, which then goes to its end."""
    model = job.workload.model.removeprefix("nets:")
    if model == "sleeping" or job.workload.input_pipeline == "nets:paced":
        return SLOW_SECONDS
    if model not in ("even", "uneven"):
        return 0.001
    first, *rest = Path(model).read_text().split()
    Path(model).write_text(" ".join([*rest, first]))
    return float(first)


def _is_first(name: str) -> bool:
    try:
        Path(name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


worker = ModuleType("pytest_tfperf.training.worker")
worker.work = work  # type: ignore[attr-defined]
sys.modules[worker.__name__] = worker
