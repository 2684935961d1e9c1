"""A rank of a job on several nodes, which an engine starts: it calls the driver, and then works as any worker does.

    python -m pytest_tfperf.training.rank             # one job
    python -m pytest_tfperf.training.rank --repeat    # one job after another, until the driver is gone

It calls TFPERF_ADDRESS ("host:port"), with the key in the file that TFPERF_KEY_FILE names, before it imports
TensorFlow: so the driver knows early which ranks have not started. Its rank is in variables that its starter set.
"""

from __future__ import annotations

import os
import platform
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pytest_tfperf.core import plain_json
from pytest_tfperf.core.job import digest
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.training.process import become_worker, import_and_work
from pytest_tfperf.workers.process_end import die_with_parent
from pytest_tfperf.workers.wire import Channel, ConnectionLost, Refused, connect, read_key

_NOBODY_LISTENS = 3
_FIRST_SECONDS = 600.0  # for a driver that has not listened yet: the pods of one job start minutes apart
_REPEAT_SECONDS = 60.0  # a driver that is gone for so long has ended
_BLAME_SECONDS = 10.0
_TENSORFLOWS = ("tensorflow", "tensorflow-cpu", "tf-nightly", "tf-nightly-cpu", "intel-tensorflow")


def main() -> int:
    """Do one job; returns the process's exit status."""
    die_with_parent(os.getppid())
    try:
        channel, message = call()
    except TfperfError as error:
        print(f"pytest-tfperf: {error}", file=sys.stderr)
        return 2
    except ConnectionLost as error:
        print(f"pytest-tfperf: no driver: {error}", file=sys.stderr)
        return _NOBODY_LISTENS
    if "refused" in message:
        print(f"pytest-tfperf: {message['refused']}", file=sys.stderr)
        return 1
    log = Path(message["log"])
    scratch = message["scratch"] or tempfile.mkdtemp(prefix="tfperf-worker-")
    environment = environment_of(message["environment"], scratch)
    become_worker(log if log.parent.is_dir() else None, environment, message["moved"])
    threading.Thread(target=end_with_driver, args=(channel.fileno(), scratch), daemon=True).start()
    status = import_and_work(channel, message)
    if status:
        # If this rank ended now, its engine would end the others too, and the driver could not tell who was to blame.
        # The driver closes the connection when it knows.
        time.sleep(_BLAME_SECONDS)
    shutil.rmtree(scratch, ignore_errors=True)
    return status


def call() -> tuple[Channel, dict[str, Any]]:
    """Call the driver with this rank's numbers; returns its answer, which comes once all ranks have called.

    Raises:
        TfperfError: the environment does not say whom to call, or which rank this is.
        ConnectionLost: nobody listens there, or the driver gave the job up.
    """
    address, key_file = (os.environ.get(name, "") for name in ("TFPERF_ADDRESS", "TFPERF_KEY_FILE"))
    if not (address and key_file):
        lacks = "TFPERF_KEY_FILE" if address else "TFPERF_ADDRESS"
        raise TfperfError(f"{lacks} is not set, or empty: whoever starts a rank must give it")
    key = read_key(Path(key_file))
    rank, size = find_rank(os.environ)
    hello = {
        "hello": "rank",
        "job": os.environ.get("TFPERF_JOB", ""),
        "rank": rank,
        "size": size,
        "host": platform.node(),
        "pid": os.getpid(),
        "versions": {"pytest-tfperf": digest(), "tensorflow": tensorflow_version()},
    }
    channel = connect(f"{address}:{key}")
    try:
        channel.send(hello)  # at once: the driver closes connections that stay silent
        return channel, channel.receive()
    except ConnectionLost as error:
        why = f"{address}: {error}"
        if not isinstance(error, Refused):
            why += f". It gave the job up, has another key than {key_file}, or another version of pytest-tfperf"
        raise ConnectionLost(why) from None


# Variables for rank and size, in the order in which they are believed: the nearest starter first.
_VARIABLES = (
    ("TFPERF_RANK", "TFPERF_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),  # srun
    ("PET_NODE_RANK", "PET_NNODES"),  # Kubeflow Trainer
    ("JOB_COMPLETION_INDEX", "TFPERF_SIZE"),  # a Kubernetes Job of completion mode "Indexed"
)


def find_rank(environment: Mapping[str, str]) -> tuple[int, int]:
    """The rank, from 0, and the number of ranks, that TF_CONFIG or a starter's variables give.

    Raises:
        TfperfError: none gives them, or one gives something impossible; names the variables.
    """
    if environment.get("TF_CONFIG"):
        return _from_tf_config(environment["TF_CONFIG"])
    for names in _VARIABLES:
        if all(name in environment for name in names):
            given = ", ".join(f"{name}={environment[name]}" for name in names)
            try:
                rank, size = (int(environment[name]) for name in names)
            except ValueError:
                raise TfperfError(f"{given}: rank and size must be whole numbers") from None
            if not 0 <= rank < size:
                raise TfperfError(f"{given}: the rank must be from 0 to below the size")
            return rank, size
    known = "; ".join(" with ".join(names) for names in _VARIABLES)
    raise TfperfError(
        "this process can't tell which rank it is", next_step=f"Set TFPERF_RANK and TFPERF_SIZE. Known: {known}"
    )


def _from_tf_config(text: str) -> tuple[int, int]:
    """The rank among chief and workers: a chief is rank 0. Parameter servers and evaluators are no ranks of ours."""
    try:
        config: Any = plain_json.from_json(text)
        is_sparse = "sparseCluster" in config  # Kubeflow writes it in place of "cluster"
        cluster = config.get("cluster", {}) if is_sparse else config["cluster"]
        kind, index = str(config["task"]["type"]), int(config["task"]["index"])
        sizes = {name: len(cluster.get(name, ())) for name in ("chief", "worker")}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise TfperfError(
            f"TF_CONFIG={text[:200]} is not a cluster with a task, as in "
            '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'
        ) from None
    if is_sparse or isinstance(cluster.get("worker"), dict):
        raise TfperfError("TF_CONFIG holds a sparse cluster, which does not name all ranks: give all of them")
    if kind not in sizes:
        raise TfperfError(f"TF_CONFIG: a task of type {kind!r} is no rank: start ranks only as chief and worker")
    if not 0 <= index < sizes[kind]:
        raise TfperfError(f"TF_CONFIG: there is no {kind} {index}: its cluster has {sizes[kind]}")
    return index + (sizes["chief"] if kind == "worker" else 0), sum(sizes.values())


def environment_of(given: Mapping[str, str], scratch: str, own: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment variables that this rank trains with, of its own and those that the driver has `given`.

    The driver gives the GPUs that the test took, where they are this machine's. TensorFlow removes its temporary files
    in an exit handler, which never runs; so they go to the folder `scratch`.
    """
    environment = {**own, **given, "TMPDIR": scratch}
    if "CUDA_VISIBLE_DEVICES" not in environment:
        # The test took the first GPUs in NVML's order. By itself CUDA puts the fastest first.
        environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return environment


def tensorflow_version() -> str:
    """As it is installed, without importing it; "" if it is not."""
    for name in _TENSORFLOWS:
        with suppress(PackageNotFoundError):
            return version(name)
    return ""


def end_with_driver(connection: int, scratch: str) -> None:
    """Remove `scratch` and end as soon as the driver closes the connection, whatever TensorFlow waits for."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    poll.poll()
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


def repeat() -> int:
    """Run each job in a process of its own: TensorFlow can join only one cluster."""
    until = time.monotonic() + _FIRST_SECONDS
    while time.monotonic() < until:
        done = subprocess.run([sys.executable, "-m", "pytest_tfperf.training.rank"], check=False)
        if done.returncode == 2:
            return 2
        if done.returncode == _NOBODY_LISTENS:
            time.sleep(1)
        else:
            until = time.monotonic() + _REPEAT_SECONDS
    return 0


if __name__ == "__main__":
    status = repeat() if sys.argv[1:] == ["--repeat"] else main()
    sys.stdout.flush()
    os._exit(status)
