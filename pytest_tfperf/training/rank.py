"""One rank of a job on several nodes, which an engine starts: it calls the driver, and then works as any worker does.

    python -m pytest_tfperf.training.rank             # one job
    python -m pytest_tfperf.training.rank --repeat    # one job after another, until the driver is gone

It calls TFPERF_ADDRESS ("host:port"), with the key in the file that TFPERF_KEY_FILE names. Which rank it is, `place`
finds out. It calls before it imports TensorFlow, so that the driver knows early which ranks have not started.
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
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pytest_tfperf.core.job import digest
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.training.place import find_place
from pytest_tfperf.training.process import become_worker, import_and_work
from pytest_tfperf.workers.process_group import die_with_parent
from pytest_tfperf.workers.wire import Channel, ConnectionLost, connect, read_key

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
    """Call the driver and say who this is; returns its answer, once all ranks have called.

    Raises:
        TfperfError: the environment does not say whom to call, or which rank this is.
        ConnectionLost: nobody listens there, or the driver gave the job up.
    """
    address, key_file = (os.environ.get(name, "") for name in ("TFPERF_ADDRESS", "TFPERF_KEY_FILE"))
    if not (address and key_file):
        lacks = "TFPERF_KEY_FILE" if address else "TFPERF_ADDRESS"
        raise TfperfError(f"{lacks} is not set, or empty: whoever starts a rank must give it")
    key = read_key(Path(key_file))
    place = find_place(os.environ)
    hello = {
        "hello": "rank",
        "job": os.environ.get("TFPERF_JOB", ""),
        "rank": place.rank,
        "size": place.size,
        "host": platform.node(),
        "pid": os.getpid(),
        "versions": {"pytest-tfperf": digest(), "tensorflow": tensorflow_version()},
    }
    channel = connect(f"{address}:{key}")
    channel.send(hello)  # at once: who says nothing is taken for a stranger
    return channel, channel.receive()


def environment_of(given: Mapping[str, str], scratch: str, own: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment variables that this rank trains with.

    Args:
        given: the driver's: the GPUs that the test took, where they are this machine's.
        scratch: the folder of temporary files. TensorFlow removes its own in an exit handler, which never runs.
        own: those that the rank was started with.
    """
    environment = {**own, **given, "TMPDIR": scratch}
    if "CUDA_VISIBLE_DEVICES" not in environment:
        # The test took the first GPUs in NVML's order. By itself CUDA puts the fastest first.
        environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return environment


def tensorflow_version() -> str:
    """As it is installed, without importing it; "" if it is not."""
    for name in _TENSORFLOWS:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return ""


def end_with_driver(connection: int, scratch: str) -> None:
    """End this process as soon as the driver closes the connection, whatever TensorFlow waits for.

    Args:
        connection: its file.
        scratch: folder to remove.
    """
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    poll.poll()
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


def repeat() -> int:
    """One process for each job: TensorFlow can join only one cluster."""
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
