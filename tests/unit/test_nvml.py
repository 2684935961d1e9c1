"""Discovery through the real nvidia-ml-py, on a stand-in library compiled for each machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import nvml_stand_in as nvml
import pytest
from machines import load
from nvml_stand_in import NvLink, Slice, StandIn
from patience import PATIENCE_SECONDS

from pytest_tfperf.core.topology import Link, LinkKind, Topology
from pytest_tfperf.hardware import nvml as hardware_nvml
from pytest_tfperf.hardware.nvml import find_gpus

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import json, sys
from pathlib import Path
from pytest_tfperf.hardware.discovery import discover
print(json.dumps(discover(root=Path(sys.argv[1])).to_json()))
"""


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    return tmp_path_factory.mktemp("nvml")


@pytest.fixture
def discover(libraries, tmp_path):
    """Runs the discovery in a fresh interpreter, since nvidia-ml-py keeps the first library that it loads."""

    def run(stand_in: StandIn | Path, **environ: str) -> Topology:
        folder = stand_in.build(libraries) if isinstance(stand_in, StandIn) else stand_in
        if isinstance(stand_in, StandIn):
            lay_out_sysfs(stand_in.machine, tmp_path)
        clean = {k: v for k, v in os.environ.items() if not k.startswith("CUDA_")}
        environ |= {"LD_LIBRARY_PATH": str(folder), "NVML_STAND_IN_LOG": str(tmp_path / "log")}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, tmp_path],
            env=clean | environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return Topology.from_json(json.loads(done.stdout))

    return run


def lay_out_sysfs(machine: Topology, root: Path) -> None:
    for gpu in machine.gpus:
        folder = root / "sys/bus/pci/devices" / (gpu.pci_bus_id or "")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "numa_node").write_text(f"{-1 if gpu.numa_node is None else gpu.numa_node}\n")
        (folder / "local_cpulist").write_text(f"{gpu.cpu_affinity or ''}\n")


def switched(name: str, count: int, kind: int = nvml.SWITCH, address: str = nvml.NO_ADDRESS) -> StandIn:
    machine = load(name)
    return StandIn(machine, nvlinks={i: (NvLink(kind, address),) * count for i in range(len(machine.gpus))})


# What is there


@pytest.mark.parametrize("name", ["dgx1-p100", "4x-gtx-1080-ti", "h200", "mixed"])
def test_every_fact_of_a_gpu_is_found(discover, name):
    assert discover(StandIn(load(name))).gpus == load(name).gpus


@pytest.mark.parametrize("name", ["dgx1-p100", "4x-gtx-1080-ti", "mixed"])
def test_the_links_are_found(discover, name):
    assert discover(StandIn(load(name))).links == load(name).links


def test_driver_and_cuda_versions_are_found(discover):
    found = discover(StandIn(load("dgx1-p100")))
    assert (found.driver_version, found.cuda_version) == ("384.66", "9.0")


def test_gpus_behind_nvswitches_are_linked_all_to_all(discover):
    found = discover(switched("dgx1-p100", 18))
    assert {link for row in found.links for link in row if link} == {Link(LinkKind.NVLINK, 18)}


def test_an_end_that_a_virtual_machine_hides_is_taken_for_an_nvswitch(discover):
    found = discover(switched("dgx1-p100", 18, kind=nvml.UNKNOWN_DEVICE))
    assert found.links[0][5] == Link(LinkKind.NVLINK, 18)


def test_an_nvlink_to_another_containers_gpu_is_no_switch(discover):
    machine = load("dgx1-p100")
    hidden = NvLink(nvml.UNKNOWN_DEVICE, "0000:99:00.0", device_id=0x15F910DE)
    found = discover(StandIn(machine, nvlinks=dict.fromkeys(range(8), (hidden,) * 4)))
    assert found.links[0][5] == Link(LinkKind.SYS)


def test_an_nvlink_to_the_cpu_links_no_gpus(discover):
    assert discover(switched("dgx1-p100", 3, kind=1)).links[0][5] == Link(LinkKind.SYS)


def test_a_path_that_nvml_does_not_tell_is_unknown(discover):
    broken = {"nvmlDeviceGetTopologyCommonAncestor": nvml.NOT_SUPPORTED}
    assert discover(StandIn(load("4x-gtx-1080-ti"), broken=broken)).links[0][1] == Link(LinkKind.UNKNOWN)


# Older drivers, and things that fail


@pytest.mark.parametrize(
    "stand_in", [{"absent": frozenset({"nvmlDeviceGetNumGpuCores"})}, {"broken": {"nvmlDeviceGetNumGpuCores": 3}}]
)
def test_a_fact_that_the_driver_lacks_is_none_and_no_more(discover, stand_in):
    assert discover(StandIn(load("h200"), **stand_in)).gpus == (replace(load("h200").gpus[0], cores=None),)


def test_an_old_driver_that_does_not_tell_what_an_nvlink_ends_at_still_gives_the_mesh(discover):
    absent = frozenset({"nvmlDeviceGetNvLinkRemoteDeviceType"})
    assert discover(StandIn(load("dgx1-p100"), absent=absent)).links == load("dgx1-p100").links


@pytest.mark.parametrize(
    ("function", "code", "reason"),
    [
        ("nvmlInitWithFlags", nvml.DRIVER_NOT_LOADED, "kernel module is not loaded"),
        ("nvmlInitWithFlags", nvml.NO_PERMISSION, "no permission"),
        ("nvmlInitWithFlags", nvml.VERSION_MISMATCH, "different versions"),
        ("nvmlInitWithFlags", nvml.UNKNOWN, "error 999"),
        ("nvmlDeviceGetCount_v2", nvml.NO_PERMISSION, "no permission"),
        ("nvmlDeviceGetHandleByIndex_v2", nvml.GPU_IS_LOST, "GPU 0 can't be used"),
        ("nvmlDeviceGetUUID", nvml.NO_PERMISSION, "GPU 0 can't be used: no permission"),
    ],
)
def test_what_can_not_be_asked_says_why(discover, function, code, reason):
    assert reason in discover(StandIn(load("h200"), broken={function: code})).why_no_gpus


def test_a_driver_that_fails_is_told_from_a_machine_without_one(discover, tmp_path):
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    broken = StandIn(load("h200"), broken={"nvmlInitWithFlags": nvml.VERSION_MISMATCH})
    assert (discover(broken).driver_fault, discover(tmp_path).driver_fault) == (True, False)


def test_a_driver_that_hangs_holds_nobody_up(tmp_path, monkeypatch):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidiactl").touch()
    monkeypatch.setattr(hardware_nvml, "_ANSWER_SECONDS", 0.001)  # less than any interpreter takes to start
    found = find_gpus(tmp_path)
    hardware_nvml._left.pop().wait(PATIENCE_SECONDS)
    assert (found.driver_fault, "does not answer" in found.why_no_gpus) == (True, True)


def test_a_driver_without_the_newer_entry_point_is_too_old(discover):
    assert "too old" in discover(StandIn(load("h200"), absent=frozenset({"nvmlInitWithFlags"}))).why_no_gpus


def test_no_library_says_that_there_is_no_driver(discover, tmp_path):
    # An unreadable library in the way hides a real one on a machine that has a driver.
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    assert "libnvidia-ml.so.1" in discover(tmp_path).why_no_gpus


def test_a_driver_without_gpus_says_so(discover):
    empty = replace(load("no-gpu"), driver_version="550.54")
    assert discover(StandIn(empty)).why_no_gpus == "the NVIDIA driver 550.54 finds no GPU"


@pytest.mark.parametrize("broken", [{}, {"nvmlDeviceGetCount_v2": nvml.UNKNOWN}, {"nvmlDeviceGetUUID": nvml.UNKNOWN}])
def test_nvml_is_always_shut_down(discover, tmp_path, broken):
    discover(StandIn(load("h200"), broken=broken))
    assert (tmp_path / "log").read_text() == "init shutdown "


# CUDA_VISIBLE_DEVICES


@pytest.mark.parametrize(
    ("variable", "shown"),
    [
        ("2,1", [2, 1]),
        ("0,2,-1,1", [0, 2]),
        ("0,9,1", [0]),
        ("3,nonsense,1", [3]),
        (" 1 , 2", [1, 2]),
        ("GPU-00000100-0000-4000-8000-000000000005,0", [5, 0]),
        ("", []),
        ("-1", []),
        ("1,1", []),
        ("GPU-0", []),  # a prefix of several
        ("GPU-beef", []),
    ],
)
def test_cuda_visible_devices_holds(discover, variable, shown):
    found = discover(StandIn(load("dgx1-p100")), CUDA_VISIBLE_DEVICES=variable)
    assert [gpu.index for gpu in found.gpus] == shown


def test_a_uuid_prefix_that_names_one_gpu_shows_it(discover):
    found = discover(StandIn(load("h200")), CUDA_VISIBLE_DEVICES="GPU-000002")
    assert len(found.gpus) == 1


def test_links_follow_the_visible_gpus(discover):
    found = discover(StandIn(load("dgx1-p100")), CUDA_VISIBLE_DEVICES="5,0,1")
    assert [[str(link) for link in row] for row in found.links] == [
        ["None", "SYS", "NV1"],
        ["SYS", "None", "NV1"],
        ["NV1", "NV1", "None"],
    ]


def test_hidden_gpus_stay_in_the_machines_key(discover):
    found = discover(StandIn(load("dgx1-p100")), CUDA_VISIBLE_DEVICES="0")
    assert found.machine.startswith("8x-tesla-p100-sxm2-16gb-nvlink-")


def test_hidden_gpus_are_noted(discover):
    found = discover(StandIn(load("dgx1-p100")), CUDA_VISIBLE_DEVICES="0,1")
    assert found.notes == ("CUDA_VISIBLE_DEVICES='0,1' shows 2 of 8 GPUs",)


def test_where_all_gpus_are_hidden_the_variable_is_the_reason(discover):
    found = discover(StandIn(load("dgx1-p100")), CUDA_VISIBLE_DEVICES="-1")
    assert found.why_no_gpus == "CUDA_VISIBLE_DEVICES='-1' shows 0 of 8 GPUs"


@pytest.mark.parametrize(("order", "name"), [("FASTEST_FIRST", "RTX 3090"), ("PCI_BUS_ID", "GTX 1080 Ti")])
def test_an_index_counts_in_cudas_order(discover, order, name):
    found = discover(StandIn(load("mixed")), CUDA_VISIBLE_DEVICES="0", CUDA_DEVICE_ORDER=order)
    assert found.gpus[0].name == f"NVIDIA GeForce {name}"


# MIG

SLICES = tuple(Slice(f"MIG-{i}", "NVIDIA H200 MIG 1g.18gb", 17_179_869_184, 16, 1, 1) for i in range(3))


def test_mig_devices_stand_for_their_gpu(discover):
    found = discover(StandIn(load("h200"), mig={0: SLICES}))
    assert [gpu.uuid for gpu in found.gpus] == ["MIG-0", "MIG-1", "MIG-2"]


def test_a_mig_devices_facts_are_its_own(discover):
    gpu = discover(StandIn(load("h200"), mig={0: SLICES})).gpus[0]
    assert (gpu.mig_profile, gpu.memory_bytes, gpu.cores) == ("1g.18gb", 17_179_869_184, 16 * 128)


def test_a_profile_that_the_driver_does_not_write_is_worked_out(discover):
    slices = (
        Slice("MIG-0", "NVIDIA H200", 17_179_869_184, 16, 1, 1),
        Slice("MIG-1", "NVIDIA H200", 75_000_000_000, 16, 3, 1),
    )
    found = discover(StandIn(load("h200"), mig={0: slices}))
    assert [gpu.mig_profile for gpu in found.gpus] == ["1g.18gb", "1c.3g.70gb"]


def test_mig_is_in_the_machines_key(discover):
    assert discover(StandIn(load("h200"), mig={0: SLICES})).machine.startswith("3x-h200-mig-1g.18gb-")


def test_mig_mode_without_devices_says_what_to_do(discover):
    assert "make one" in discover(StandIn(load("h200"), mig={0: ()})).why_no_gpus


@pytest.mark.parametrize(
    ("variable", "shown"), [("MIG-1", ["MIG-1"]), ("0", ["MIG-0", "MIG-1", "MIG-2"]), ("MIG-", [])]
)
def test_cuda_visible_devices_names_mig_devices(discover, variable, shown):
    found = discover(StandIn(load("h200"), mig={0: SLICES}), CUDA_VISIBLE_DEVICES=variable)
    assert [gpu.uuid for gpu in found.gpus] == shown


# Cost


def test_discovery_imports_nothing_heavy(tmp_path):
    program = (
        "import sys; from pytest_tfperf.hardware.discovery import discover; assert 'pynvml' not in sys.modules;"
        "discover(); print({'numpy', 'pandas', 'scipy', 'tensorflow', 'psutil'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert done.stdout.strip() == "set()"
