"""Workers on this machine: what they are given, when their server starts anew, and what a failed start leaves."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from pytest_tfperf.core.job import Job
from pytest_tfperf.core.plain_json import build
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.workers.local import LocalLauncher
from pytest_tfperf.workers.processes import Interpreter
from tests.helpers.patience import wait_for
from tests.helpers.pythons import fake_python, fake_server
from tests.helpers.space import no_file_left_to_open

CPU = Devices(kind=DeviceKind.CPU, count=1)
GPUS = Devices(kind=DeviceKind.GPU, count=2, gpu_uuids=("GPU-1", "GPU-2"))
JOB = Job(workload=Workload(model="trivial", batch_size=1), devices=CPU)

# A fresh worker that keeps the message that it was given.
KEEPS_ITS_MESSAGE = """
    channel, message = call_as_worker()
    message["runs in"] = os.getcwd()
    with open(os.path.join(os.path.dirname(sys.argv[0]), "message"), "w") as file:
        json.dump(message, file)
    channel.send(READY)
    channel.receive()
"""
# A forked one whose environment says which server forked it.
NAMES_ITS_SERVER = """
    def work(channel, message):
        READY["ready"]["environment"]["server"] = str(os.getppid())
        channel.send(READY)
        channel.receive()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path / "tmp"


def launching(folder: Path, **options: Any) -> closing[LocalLauncher]:
    """A launcher until the end of its block."""
    return closing(LocalLauncher(logs=folder / "logs", silence_seconds=60, **options))


def message_for(folder: Path, job: Job, moved: Mapping[Path, Path] | None = None) -> dict[str, Any]:
    """What the launcher sends to the worker of this job; `moved` as in `Interpreter`."""
    interpreter = Interpreter(fake_python(folder, KEEPS_ITS_MESSAGE), moved or {})
    with launching(folder, fresh=True, interpreter=interpreter) as launcher:
        launcher.start(job, lambda phase: None).close()
    message: dict[str, Any] = json.loads((folder / "message").read_text())
    return message


def test_a_job_arrives_as_it_was_given(tmp_path: Path) -> None:
    names = {"model": {"mine": "nets:tiny"}}
    job = Job(workload=Workload(model="resnet50", batch_size=64), devices=GPUS, seed=3, data_dir="/d", names=names)
    assert build(Job, message_for(tmp_path, job)["job"], "job") == job


@pytest.mark.parametrize(("devices", "visible"), [(CPU, "-1"), (GPUS, "GPU-1,GPU-2")])
def test_a_worker_sees_the_gpus_of_its_job_alone(tmp_path: Path, devices: Devices, visible: str) -> None:
    message = message_for(tmp_path, Job(workload=JOB.workload, devices=devices))
    assert message["environment"]["CUDA_VISIBLE_DEVICES"] == visible


def test_workers_can_take_the_users_code_from_another_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, checkout = tmp_path / "project", tmp_path / "checkout"
    for folder in (project, checkout):
        folder.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("PYTHONPATH", str(project))
    message = message_for(tmp_path, JOB, moved={project: checkout})
    assert message["environment"]["PYTHONPATH"] == message["import_paths"][-1] == message["runs in"] == str(checkout)


def server_of(launcher: LocalLauncher) -> str:
    run = launcher.start(JOB, lambda phase: None)
    run.close()
    return run.environment["server"]


@pytest.mark.parametrize(("variable", "restarts"), [("TF_NEW_SETTING", True), ("MY_SETTING", False)])
def test_a_variable_that_tensorflow_reads_at_import_starts_a_new_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, restarts: bool
) -> None:
    with launching(tmp_path, interpreter=Interpreter(fake_server(tmp_path, NAMES_ITS_SERVER))) as launcher:
        first = server_of(launcher)
        monkeypatch.setenv(variable, "1")
        second = server_of(launcher)
    assert (first != second) is restarts


def test_a_server_that_was_killed_is_replaced(tmp_path: Path) -> None:
    with launching(tmp_path, interpreter=Interpreter(fake_server(tmp_path, NAMES_ITS_SERVER))) as launcher:
        first = server_of(launcher)
        os.kill(int(first), signal.SIGKILL)
        assert wait_for(lambda: psutil.Process(int(first)).status() == psutil.STATUS_ZOMBIE)
        second = server_of(launcher)
    assert first != second


# Starts that fail


def open_sockets() -> set[str]:
    """Of this process."""
    return {name for name in _descriptors() if name.startswith("socket:")}


def _descriptors() -> Iterator[str]:
    for entry in Path("/proc/self/fd").iterdir():
        try:
            yield str(entry.readlink())
        except OSError:  # that of the listing itself
            continue


@pytest.mark.parametrize(
    ("fresh", "script", "message"),
    [
        (True, None, "a worker could not be started: .*No such file or directory"),
        (False, None, "a worker could not be started: .*No such file or directory"),
        (False, "sys.exit(3)", "the fork server exited with status 3"),
        (True, "sys.exit(3)", "exited with status 3 in phase 'start'"),
    ],
    ids=["no Python", "no Python for a server", "server ends", "worker ends"],
)
def test_a_start_that_fails_is_no_measurement_and_leaves_nothing(
    tmp_path: Path, temporary: Path, fresh: bool, script: str | None, message: str
) -> None:
    before = open_sockets()
    python = fake_python(tmp_path, script) if script else "/nonexistent/python"
    with (
        launching(tmp_path, fresh=fresh, interpreter=Interpreter(python)) as launcher,
        pytest.raises(MeasurementError, match=message),
    ):
        launcher.start(JOB, lambda phase: None)
    assert open_sockets() == before
    assert not list(temporary.iterdir())


def test_a_start_without_a_file_left_to_open_names_the_limit_and_the_next_step(tmp_path: Path) -> None:
    refused = pytest.raises(
        MeasurementError, match=r"Too many open files.*\. The limit of open files is reached: raise"
    )
    with launching(tmp_path, fresh=True) as launcher, refused, no_file_left_to_open():
        launcher.start(JOB, lambda phase: None)
