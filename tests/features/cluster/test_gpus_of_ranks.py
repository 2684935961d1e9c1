"""Which GPUs the processes that an engine starts are told to use: ranks that only call, and programs that never run."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError, TfperfError
from pytest_tfperf.features.cluster.nodes import ClusterNodes
from pytest_tfperf.features.cluster.plugin import Listen
from pytest_tfperf.features.cluster.rank_launcher import ClusterLauncher
from pytest_tfperf.programs.command_run import CommandRun
from pytest_tfperf.workers.local import LocalLauncher
from pytest_tfperf.workers.processes import Interpreter
from tests.helpers.machines import load
from tests.helpers.patience import PATIENCE_SECONDS

# A rank that keeps the message with its job, and then says that its TensorFlow is not usable. Its command line names
# the module that ranks run, as the driver expects of a process of this machine.
RANK = """
import json, os, sys
from pathlib import Path
from pytest_tfperf.core.job import digest
from pytest_tfperf.workers.wire import read_key
from pytest_tfperf.workers.wire import connect

rank, size, host = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
channel = connect(os.environ["TFPERF_ADDRESS"] + ":" + read_key(Path(os.environ["TFPERF_KEY_FILE"])))
versions = {"pytest-tfperf": digest()}
hello = {"hello": "rank", "job": os.environ["TFPERF_JOB"], "rank": rank, "size": size, "host": host, "pid": os.getpid()}
channel.send({**hello, "versions": versions})
Path(f"rank{rank}.json").write_text(json.dumps(channel.receive()))
channel.send({"failed": "no TensorFlow here"})
"""


class CallingEngine:
    """Starts ranks that call, and say that they run on this host."""

    most_nodes = None
    starts_ranks = True
    runs_programs = True

    def __init__(self, host: str = "") -> None:
        self._host = host

    def command(
        self, nodes: int, ranks_per_node: int, rank: Sequence[str], variables: Sequence[str], gpus: int = 0
    ) -> list[str]:
        count = nodes * ranks_per_node
        start = f'"$0" -c "$1" "$rank" {count} {self._host} pytest_tfperf.training.rank &'
        return [
            "sh",
            "-c",
            f"for rank in {' '.join(map(str, range(count)))}; do {start} done; wait",
            sys.executable,
            RANK,
        ]

    def ended_ranks(self, output: str) -> Mapping[int, int]:
        return {}

    def cancel(self) -> None:
        pass


@pytest.fixture
def launcher(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ClusterLauncher]:
    monkeypatch.chdir(tmp_path)
    engine = CallingEngine(getattr(request, "param", platform.node()))
    nodes = ClusterNodes(engine, named="", listen=Listen("127.0.0.1"), folder=tmp_path, silence_seconds=60)
    with closing(nodes), closing(LocalLauncher(logs=tmp_path, silence_seconds=60)) as local:
        yield ClusterLauncher(nodes, local, Interpreter(sys.executable))


# Ranks


def given_to_ranks(launcher: ClusterLauncher, devices: Devices, nodes: int = 1) -> list[dict[str, str]]:
    """The environment variables that each rank of a job of Horovod gets with its job."""
    workload = Workload(model="trivial", batch_size=4, variable_update="horovod")
    with pytest.raises(MeasurementError, match="no TensorFlow here"):
        launcher.start(Job(workload=workload, devices=devices, nodes=nodes), lambda _: None)
    count = nodes * devices.count
    return [json.loads(Path(f"rank{rank}.json").read_text())["environment"] for rank in range(count)]


def taken() -> Devices:
    devices = load("dgx1-p100").take(2).devices
    assert devices is not None
    return devices


def test_ranks_of_one_node_that_is_this_machine_get_the_gpus_that_were_taken(launcher: ClusterLauncher) -> None:
    devices = taken()
    expected = [{"CUDA_VISIBLE_DEVICES": uuid} for uuid in devices.gpu_uuids]
    assert given_to_ranks(launcher, devices) == expected


@pytest.mark.parametrize("launcher", ["elsewhere"], indirect=True)
def test_ranks_of_another_machine_get_no_uuid_of_this_one(launcher: ClusterLauncher) -> None:
    assert given_to_ranks(launcher, taken()) == [{}, {}]


def test_ranks_of_several_nodes_get_no_uuid_of_this_one(launcher: ClusterLauncher) -> None:
    assert given_to_ranks(launcher, taken(), nodes=2) == [{}] * 4


# Programs


def program_sees(launcher: ClusterLauncher, devices: Devices) -> dict[str, str]:
    """What a program on two nodes is told about GPUs."""
    command = Command(["train"], name="it", unit="images/s")
    environment = launcher.prepare_command(command, devices, 2).command.env
    return {name: value for name, value in environment.items() if name in CHOOSE_GPUS}


CHOOSE_GPUS = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


@pytest.fixture
def no_gpus_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CHOOSE_GPUS:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_gpus_chosen")
def test_a_program_sees_the_first_gpus_of_each_node_in_the_order_of_nvml(launcher: ClusterLauncher) -> None:
    assert program_sees(launcher, taken()) == {"CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.mark.usefixtures("no_gpus_chosen")
@pytest.mark.parametrize("shown", ["4,5,6", " 4, 5"])
def test_a_program_sees_the_first_of_the_indices_that_the_user_shows(
    launcher: ClusterLauncher, monkeypatch: pytest.MonkeyPatch, shown: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert program_sees(launcher, taken()) == {"CUDA_VISIBLE_DEVICES": "4,5"}


@pytest.mark.parametrize("shown", ["GPU-7f0d,GPU-8a1b", "MIG-1", "0,GPU-7f0d"])
def test_gpus_that_the_user_shows_by_name_are_refused_for_a_program_on_several_nodes(
    launcher: ClusterLauncher, monkeypatch: pytest.MonkeyPatch, shown: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    with pytest.raises(TfperfError, match=f"CUDA_VISIBLE_DEVICES={shown} names GPUs of this machine.*Give indices"):
        program_sees(launcher, taken())


def test_a_program_on_cpus_sees_no_gpu(launcher: ClusterLauncher) -> None:
    assert program_sees(launcher, Devices(kind=DeviceKind.CPU, count=1))["CUDA_VISIBLE_DEVICES"] == "-1"


class EnvEngine:
    """Starts a program once on this machine, with nothing but the variables that ranks get."""

    most_nodes = None
    starts_ranks = True
    runs_programs = True

    def command(self, nodes: int, ranks_per_node: int, rank: Sequence[str], variables: Sequence[str]) -> list[str]:
        kept = [f"{name}=${{{name}-}}" for name in variables]
        quoted = " ".join(f'"{word}"' for word in kept)
        return ["sh", "-c", f'exec env -i {quoted} "$@"', "sh", *rank]

    def ended_ranks(self, output: str) -> Mapping[int, int]:
        return {}

    def cancel(self) -> None:
        pass


TWO_GPUS = Devices(kind=DeviceKind.GPU, count=2, gpu_uuids=("GPU-a", "GPU-b"))


@pytest.mark.parametrize(
    ("devices", "shown", "seen"),
    [
        (Devices(kind=DeviceKind.CPU, count=1), "2,3,5", "-1"),
        (TWO_GPUS, "", "0,1"),
        (TWO_GPUS, "2,3,5", "2,3"),
    ],
)
def test_on_several_nodes_a_program_sees_as_many_gpus_as_the_test_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: Devices, shown: str, seen: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    program = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    command = Command([sys.executable, "-c", program], name="it", cwd=str(tmp_path))
    with closing(LocalLauncher(logs=tmp_path, silence_seconds=9)) as local:
        nodes = ClusterNodes(EnvEngine(), named="", listen=Listen(), folder=tmp_path, silence_seconds=9)
        launcher = nodes.launcher(local, Interpreter(sys.executable))
        with closing(CommandRun(launcher.prepare_command(command, devices, 2))) as run:
            assert b"".join(iter(lambda: run.read(PATIENCE_SECONDS), b"")).decode().strip() == seen
