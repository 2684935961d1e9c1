"""How devices are configured; GPUs are fakes here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import tensorflow as tf

from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.errors import NotEnoughDevices
from pytest_tfperf.training.devices import configure, own_devices, require_logical
from pytest_tfperf.training.worker import WorkerFigures
from tests.helpers.fake_nvml import FakeNvml, MigDevice
from tests.helpers.machines import load
from tests.helpers.patience import SESSION_SECONDS
from tests.helpers.stand_in_libraries import BuildLibrary

GPU = DeviceKind.GPU

# As workers import TensorFlow: it takes a fifth less.
IMPORT = "from pytest_tfperf.training.process import import_tensorflow\nimport_tensorflow()\n"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Two fake GPUs, and the calls by which they are configured."""
    made = SimpleNamespace(visible=None, growing=[], parts=[])
    gpus = ["first", "second"]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus if kind == "GPU" else [])
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda seen, kind: setattr(made, "visible", list(seen)))
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda gpu, on: made.growing.append((gpu, on)))
    monkeypatch.setattr(
        tf.config,
        "set_logical_device_configuration",
        lambda gpu, parts: made.parts.append((gpu, [part.memory_limit for part in parts])),
    )
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: ["a logical device"] * 4)
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: {"cuda_compute_capabilities": ["sm_60", "sm_70"]})
    return made


@pytest.mark.parametrize(("count", "visible"), [(1, ["first"]), (2, ["first", "second"])])
def test_gpus_that_are_used_are_visible_and_take_memory_as_they_need_it(
    calls: SimpleNamespace, count: int, visible: list[str]
) -> None:
    assert configure(Devices(kind=GPU, count=count)) == ["GPU:0", "GPU:1"][:count]
    assert (calls.visible, calls.growing, calls.parts) == (visible, [(gpu, True) for gpu in visible], [])


def test_libcusolver_is_found_where_pip_installs_it(build_library: BuildLibrary, tmp_path: Path) -> None:
    build_library(Path("/dev/null"), tmp_path / "nvidia/cusolver/lib/libcusolver.so.11")
    asks = "import ctypes; ctypes.CDLL('libcusolver.so.11')"  # as TensorFlow does
    loads = f"""{IMPORT}
from pathlib import Path
from pytest_tfperf.training.devices import load_cusolver
load_cusolver(Path({str(tmp_path)!r}))
{asks}
"""
    assert subprocess.run([sys.executable, "-c", asks], capture_output=True, check=False).returncode == 1
    subprocess.run([sys.executable, "-c", loads], check=True)


@pytest.mark.parametrize(("local_rank", "count", "visible"), [(1, 1, ["second"]), (1, 2, ["first", "second"])])
def test_a_rank_takes_gpus_after_those_of_the_ranks_before_it_where_it_sees_them_all(
    calls: SimpleNamespace, local_rank: int, count: int, visible: list[str]
) -> None:
    configure(Devices(kind=GPU, count=count), local_rank=local_rank)
    assert (calls.visible, [gpu for gpu, _ in calls.growing]) == (visible, visible)


@pytest.mark.parametrize(("free_mib", "count", "limit"), [(9 * 1024, 4, 2048), (100_000, 2, 47_500)])
def test_a_split_gpu_keeps_some_memory_free(
    calls: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, free_mib: int, count: int, limit: int
) -> None:
    monkeypatch.setattr("pytest_tfperf.training.devices._free_mib", lambda _: free_mib)
    names = configure(Devices(kind=GPU, count=count, split=True))
    assert names == [f"GPU:{i}" for i in range(count)]
    assert (calls.visible, calls.growing, calls.parts) == (["first"], [], [("first", [limit] * count)])


@pytest.mark.parametrize(
    ("uuid", "limit"), [(load("h200").gpus[0].uuid, 67_805), ("MIG-1", 8_192)], ids=["GPU", "MIG device"]
)
def test_a_gpu_or_mig_device_is_split_by_the_memory_that_it_has_free(
    calls: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, uuid: str, limit: int
) -> None:
    mig = {0: [MigDevice("MIG-1", "H200 MIG 1g.18gb", 18 * 2**30)]}
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(load("h200"), mig=mig))
    configure(Devices(kind=GPU, count=2, gpu_uuids=(uuid,), split=True))
    assert calls.parts == [("first", [limit] * 2)]


def printed(code: str) -> str:
    """What a process of its own prints, in which no device is configured yet."""
    command = [sys.executable, "-c", f"{IMPORT}{code}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SESSION_SECONDS, check=True)
    return done.stdout


def test_too_few_gpus_are_named_with_the_likely_reasons(calls: SimpleNamespace) -> None:
    reasons = r"sees 2 GPU\(s\), and 3 are needed \(a, b, c\).*built for sm_60.*ignores older.*built for CUDA"
    with pytest.raises(NotEnoughDevices, match=reasons):
        configure(Devices(kind=GPU, count=3, gpu_uuids=("a", "b", "c")))


def test_a_gpu_that_tensorflow_leaves_out_is_missed(calls: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = Devices(kind=GPU, count=2, gpu_uuids=("a", "b"))
    require_logical(devices)
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: ["the first"])
    with pytest.raises(NotEnoughDevices, match=r"sees 1 GPU\(s\), and 2 are needed \(a, b\)"):
        require_logical(devices)


# Of several ranks


def test_a_process_alone_owns_all_its_devices(cpus: list[str]) -> None:
    assert [name.rpartition("device:")[2] for name in own_devices(DeviceKind.CPU)] == cpus


@pytest.mark.slow  # it imports TensorFlow in a process of its own
def test_a_rank_that_leads_a_cluster_knows_its_own_devices() -> None:
    code = """
import tensorflow as tf
from pytest_tfperf.core.job import Cluster
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.training.devices import own_devices
from pytest_tfperf.workers.wire import reserve_port
from pytest_tfperf.training.strategies import DeviceServer, connect

ports = [reserve_port("127.0.0.1") for _ in range(2)]
addresses = tuple(address for _, address in ports)
lends, leads = (Cluster(rank=rank, addresses=addresses, hosts=("a", "b"), timeout_seconds=60) for rank in (1, 0))
server = DeviceServer(lends, Devices(kind=DeviceKind.CPU, count=1), Workload(model="trivial", batch_size=1), 0)
connect(leads, ["CPU:0"])
print(len(tf.config.list_logical_devices("CPU")), *own_devices(DeviceKind.CPU))
"""
    assert printed(code).split() == ["2", "/job:worker/replica:0/task:0/device:CPU:0"]


def test_peak_memory_is_that_of_the_ranks_own_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["/device:GPU:0", "/device:GPU:1", "/job:worker/replica:0/task:1/device:GPU:0"]
    peaks = {"/device:GPU:0": 5, "/device:GPU:1": 7}

    def memory(name: str) -> dict[str, int]:
        if name not in peaks:
            raise ValueError(f"no matching device found for {name}")  # as TensorFlow says of another rank's
        return {"peak": peaks[name]}

    monkeypatch.setattr(tf.config, "list_logical_devices", lambda _: [SimpleNamespace(name=name) for name in names])
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", memory)
    assert WorkerFigures().peak_memory == 7


def test_virtual_cpus_are_as_many_as_were_asked_for(cpus: list[str]) -> None:
    assert cpus == ["CPU:0", "CPU:1", "CPU:2", "CPU:3"]
    assert len(tf.config.list_logical_devices("CPU")) == 4


@pytest.mark.slow
def test_threads_are_no_more_than_the_quota() -> None:
    code = """
import os
from pytest_tfperf.training.devices import limit_threads, max_threads
os.sched_getaffinity = lambda _: range(4)
for cores in (4, 1):
    limit_threads(cores)
    print(max_threads())
"""
    assert printed(code).split() == ["4", "1"]
