"""Which GPUs, links and reasons discovery finds on machines that a fake NVML describes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import chain

import pynvml
import pytest

from pytest_tfperf.core.topology import Link, LinkKind
from pytest_tfperf.hardware.discovery import discover
from pytest_tfperf.hardware.nvml import NvmlError, driver_hangs, session
from tests.helpers.fake_nvml import FakeNvml, MigDevice, NvLink
from tests.helpers.machines import load
from tests.helpers.patience import PATIENCE_SECONDS

DGX1, H200, MIXED = load("dgx1-p100"), load("h200"), load("mixed")
SWITCH, HIDDEN = pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH, pynvml.NVML_NVLINK_DEVICE_TYPE_UNKNOWN
IBM_CPU = pynvml.NVML_NVLINK_DEVICE_TYPE_IBMNPU
THREE_MIG = {0: [MigDevice(f"MIG-{i}", "NVIDIA H200 MIG 1g.18gb", 17_179_869_184) for i in range(3)]}


@pytest.fixture
def found(tmp_path):
    """The topology of a fake machine, whose sysfs files are laid out below `tmp_path`."""

    def run(nvml: FakeNvml, **environ: str):
        for gpu in nvml.machine.gpus:
            folder = tmp_path / "sys/bus/pci/devices" / gpu.pci_bus_id
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "numa_node").write_text(f"{-1 if gpu.numa_node is None else gpu.numa_node}\n")
            (folder / "local_cpulist").write_text(f"{gpu.cpu_affinity or ''}\n")
        return discover(environ, tmp_path, nvml)

    return run


def test_gpus_that_were_found_stay_awake_for_the_runs_to_come(found):
    nvml = FakeNvml(H200)
    found(nvml)
    assert nvml.calls.count("nvmlShutdown") < nvml.calls.count("nvmlInit")


@pytest.mark.parametrize("name", ["dgx1-p100", "4x-gtx-1080-ti", "h200", "mixed"])
def test_every_fact_and_link_of_the_gpus_is_found(found, name):
    machine, topology = load(name), found(FakeNvml(load(name)))
    assert (topology.gpus, topology.links) == (machine.gpus, machine.links)
    assert (topology.driver_version, topology.cuda_version) == (machine.driver_version, machine.cuda_version)


@pytest.mark.parametrize(
    ("nvlink", "count", "link"),
    [
        (NvLink(SWITCH), 18, Link(LinkKind.NVLINK, 18)),
        (NvLink(HIDDEN), 18, Link(LinkKind.NVLINK, 18)),  # a virtual machine hides the switches
        (NvLink(IBM_CPU), 3, Link(LinkKind.SYS)),
    ],
)
def test_gpus_behind_nvswitches_are_linked_all_to_all_and_others_are_not(found, nvlink, count, link):
    topology = found(FakeNvml(DGX1, nvlinks=dict.fromkeys(range(8), [nvlink] * count)))
    assert topology.links[0][5] == link


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, None])
def test_a_fact_that_is_not_reported_is_none_and_nothing_more(found, code):
    topology = found(FakeNvml(H200, broken={"nvmlDeviceGetNumGpuCores": code}))
    assert topology.gpus == (replace(H200.gpus[0], cores=None),)


@pytest.mark.parametrize(
    "error",
    [
        pynvml.NVMLLibraryMismatchError("a driver before R510 lacks this version of the function"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),  # R555 in WSL2
    ],
    ids=["driver too old", "no text"],
)
def test_a_driver_that_can_not_tell_a_name_leaves_the_other_facts(found, error):
    def name(_):
        raise error

    topology = found(FakeNvml(H200, answers={"nvmlDeviceGetName": name}))
    assert topology.gpus == (replace(H200.gpus[0], name="unknown GPU"),)


def test_names_that_the_package_pynvml_gives_as_bytes_are_texts(found):
    (gpu,) = H200.gpus
    answers = {"nvmlDeviceGetName": lambda _: gpu.name.encode(), "nvmlDeviceGetUUID": lambda _: gpu.uuid.encode()}
    answers["nvmlSystemGetDriverVersion"] = lambda: b"570.1"
    topology = found(FakeNvml(H200, answers=answers))
    assert (topology.gpus, topology.driver_version) == (H200.gpus, "570.1")


def test_a_pcie_path_that_is_not_reported_is_unknown(found):
    broken = {"nvmlDeviceGetTopologyCommonAncestor": pynvml.NVML_ERROR_NOT_SUPPORTED}
    assert found(FakeNvml(load("4x-gtx-1080-ti"), broken=broken)).links[0][1] == Link(LinkKind.UNKNOWN)


@pytest.mark.parametrize(
    ("function", "code", "reason", "fault"),
    [
        ("nvmlInit", pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "no libnvidia-ml.so.1: no NVIDIA driver", False),
        ("nvmlInit", pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "kernel module is not loaded", True),
        ("nvmlInit", pynvml.NVML_ERROR_NO_PERMISSION, "no permission", True),
        ("nvmlInit", pynvml.NVML_ERROR_UNKNOWN, "error 999", True),
        ("nvmlDeviceGetCount", pynvml.NVML_ERROR_NO_PERMISSION, "no permission", True),
        ("nvmlDeviceGetHandleByIndex", pynvml.NVML_ERROR_GPU_IS_LOST, "GPU 0 cannot be used", True),
    ],
)
def test_what_fails_gives_the_reason_and_closes_nvml(found, function, code, reason, fault):
    nvml = FakeNvml(H200, broken={function: code})
    topology = found(nvml)
    assert reason in topology.why_no_gpus
    assert topology.driver_fault == fault
    assert nvml.calls.count("nvmlShutdown") == (function != "nvmlInit")


def test_gpus_without_nvml_are_no_machine_without_gpus(tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    nvml = FakeNvml(H200, broken={"nvmlInit": pynvml.NVML_ERROR_LIBRARY_NOT_FOUND})
    with pytest.raises(NvmlError, match="=compute,utility") as raised, session(nvml, tmp_path):
        pass
    assert raised.value.fault


def test_a_driver_without_gpus_says_so(found):
    empty = replace(load("no-gpu"), driver_version="550.54")
    assert found(FakeNvml(empty)).why_no_gpus == "the NVIDIA driver 550.54 finds no GPU"


def test_a_driver_that_does_not_answer_blocks_nobody(tmp_path):
    (tmp_path / "dev").mkdir()
    assert not driver_hangs(tmp_path, answer_seconds=0.001)
    (tmp_path / "dev/nvidiactl").touch()
    assert driver_hangs(tmp_path, answer_seconds=0.001)  # less than any interpreter takes to start


# CUDA_VISIBLE_DEVICES


@pytest.mark.parametrize(
    ("variable", "shown"),
    [
        ("2,1", [2, 1]),
        ("0,2,-1,1", [0, 2]),
        ("0,9,1", [0]),
        (" 1 , 2", [1, 2]),
        ("GPU-00000100-0000-4000-8000-000000000005,0", [5, 0]),
        ("", []),
        ("1,1", []),
        ("GPU-0", []),  # the beginning of several
    ],
)
def test_cuda_visible_devices_holds(found, variable, shown):
    topology = found(FakeNvml(DGX1), CUDA_VISIBLE_DEVICES=variable)
    assert [gpu.index for gpu in topology.gpus] == shown
    reasons = chain(topology.notes, [topology.why_no_gpus])
    assert f"CUDA_VISIBLE_DEVICES={variable!r} shows {len(shown)} of 8 GPUs" in reasons


def test_a_uuids_beginning_that_names_one_gpu_shows_it(found):
    assert len(found(FakeNvml(H200), CUDA_VISIBLE_DEVICES="GPU-000002").gpus) == 1


def test_links_follow_the_visible_gpus_and_the_key_stays_the_machines(found):
    topology = found(FakeNvml(DGX1), CUDA_VISIBLE_DEVICES="5,0,1")
    assert [[str(link) for link in row] for row in topology.links] == [
        ["None", "SYS", "NV1"],
        ["SYS", "None", "NV1"],
        ["NV1", "NV1", "None"],
    ]
    assert topology.machine.startswith("8x-tesla-p100-sxm2-16gb-nvlink-")


@pytest.mark.parametrize(("order", "name"), [("FASTEST_FIRST", "RTX 3090"), ("PCI_BUS_ID", "GTX 1080 Ti")])
def test_an_index_counts_in_cudas_order(found, order, name):
    topology = found(FakeNvml(MIXED), CUDA_VISIBLE_DEVICES="0", CUDA_DEVICE_ORDER=order)
    assert topology.gpus[0].name == f"NVIDIA GeForce {name}"


# MIG


def test_mig_devices_replace_their_gpu_with_facts_and_key_of_their_own(found):
    topology = found(FakeNvml(H200, mig=THREE_MIG))
    assert [gpu.uuid for gpu in topology.gpus] == ["MIG-0", "MIG-1", "MIG-2"]
    gpu = topology.gpus[0]
    assert (gpu.mig_profile, gpu.memory_bytes, gpu.cores) == ("1g.18gb", 17_179_869_184, None)
    assert topology.machine.startswith("3x-h200-mig-1g.18gb-")
    assert topology.links[0][1] == Link(LinkKind.UNKNOWN)


def test_mig_mode_without_devices_says_what_to_do(found):
    assert "create one (`nvidia-smi mig" in found(FakeNvml(H200, mig={0: []})).why_no_gpus


@pytest.mark.parametrize(("variable", "shown"), [("MIG-1", ["MIG-1"]), ("0", ["MIG-0", "MIG-1", "MIG-2"])])
def test_cuda_visible_devices_names_mig_devices(found, variable, shown):
    topology = found(FakeNvml(H200, mig=THREE_MIG), CUDA_VISIBLE_DEVICES=variable)
    assert [gpu.uuid for gpu in topology.gpus] == shown


# This machine


def test_this_machine_is_discovered_without_heavy_imports():
    program = (
        "import sys; from pytest_tfperf.hardware.discovery import discover; assert 'pynvml' not in sys.modules;"
        "assert discover().host.usable_cores >= 1;"
        "print({'numpy', 'pandas', 'scipy', 'tensorflow'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert done.stdout.strip() == "set()"
