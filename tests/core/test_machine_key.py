"""The machine's key: by hardware only, and a safe file name."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core import topology as machine_key
from pytest_tfperf.core.topology import Topology
from tests.helpers.machines import linked, load, machines


def in_cluster(name: str, most_nodes: int | None, link: str) -> Topology:
    """A machine as one of several."""
    return replace(load(name), most_nodes=most_nodes, node_link=link)


@pytest.mark.parametrize(
    ("topology", "key"),
    [
        (load("dgx1-p100"), "8x-tesla-p100-sxm2-16gb-nvlink-xeon-e5-2698-v4-80c"),
        (load("dgx1-p100").take(2), "8x-tesla-p100-sxm2-16gb-nvlink-xeon-e5-2698-v4-80c"),
        (load("dgx1-p100").on_cpu().take(2), "xeon-e5-2698-v4-80c"),
        (load("h200"), "1x-h200-xeon-platinum-8481c-16c"),
        (load("h200").split().take(2), "1x-h200-split-xeon-platinum-8481c-16c"),
        (load("mixed"), "2x-geforce-rtx-3090-1x-geforce-gtx-1080-ti-nvlink-core-i9-7900x-20c"),
        (load("no-gpu"), "amd-epyc-2c"),
        (load("no-gpu").on_cpu().take(4), "amd-epyc-2c"),
        (
            in_cluster("dgx1-p100", 2, "10gbe").take(4, nodes=2),
            "2-nodes-10gbe-8x-tesla-p100-sxm2-16gb-nvlink-xeon-e5-2698-v4-80c",
        ),
        (in_cluster("dgx1-p100", 2, "10gbe").take(4), "8x-tesla-p100-sxm2-16gb-nvlink-xeon-e5-2698-v4-80c"),
        (in_cluster("no-gpu", None, "").on_cpu().take(1, nodes=3), "3-nodes-amd-epyc-2c"),
        (in_cluster("no-gpu", 64, "local").on_cpu().take(1, nodes=2), "2-nodes-local-amd-epyc-2c"),
        (replace(load("dgx1-p100"), machine_name="dgx1-p100").on_cpu().take(2), "dgx1-p100"),
    ],
)
def test_the_machines_key(topology, key):
    assert topology.machine == key


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz", "xeon-e5-2698-v4-4c"),
        ("AMD Ryzen Threadripper 1950X 16-Core Processor", "amd-ryzen-threadripper-1950x-4c"),
        ("13th Gen Intel(R) Core(TM) i9-13900K", "core-i9-13900k-4c"),
        ("Intel Xeon Processor (Skylake, IBRS)", "xeon-skylake-ibrs-4c"),
        ("AMD Ryzen 7 5800H with Radeon Graphics", "amd-ryzen-7-5800h-4c"),
        ("Neoverse-V2", "neoverse-v2-4c"),
        ("CPU", "cpu-4c"),
        ("", "unknown-cpu-4c"),
    ],
)
def test_words_that_say_nothing_about_a_cpus_speed_are_dropped(model, key):
    assert machine_key.host_part(model, 4) == key


@given(st.lists(st.text(max_size=96), max_size=5), st.text(max_size=60))
def test_a_key_is_a_safe_file_name_whatever_the_names(names, cpu):
    key = machine_key.joined([machine_key.gpu_part(names, "nvlink"), machine_key.host_part(cpu, 8)])
    assert re.fullmatch(r"[a-z0-9](?!.*\.\.)[a-z0-9.-]{0,179}", key)


@given(machines())
def test_a_key_has_no_software_and_no_serial_number(machine):
    gpus = tuple(replace(gpu, uuid=f"GPU-other-{i}", pci_bus_id=None) for i, gpu in enumerate(machine.gpus))
    host = replace(machine.host, kernel="another", hostname="another")
    other = replace(machine, gpus=gpus, host=host, driver_version="another", cuda_version="another", notes=("another",))
    assert other.machine == machine.machine


def test_a_key_depends_on_the_usable_cores_and_not_on_how_the_driver_writes_a_name():
    machine = load("4x-gtx-1080-ti")
    newer = replace(machine, gpus=tuple(replace(gpu, name=f"NVIDIA {gpu.name}") for gpu in machine.gpus))
    assert newer.machine == machine.machine
    assert replace(machine, host=replace(machine.host, usable_cores=8)).machine != machine.machine


@pytest.mark.parametrize(
    ("machine", "link_class"),
    [
        (linked(2, {(0, 1): "NV12"}), "nvlink"),
        (linked(4, {(0, 1): "NV4", (2, 3): "NV4"}, rest="NODE"), "nvlink"),
        (linked(3, {(0, 1): "PIX"}, rest="PHB"), "phb"),
    ],
)
def test_the_key_names_the_links_class(machine, link_class):
    assert machine.machine == f"{len(machine.gpus)}x-tesla-v100-{link_class}-amd-epyc-2c"
