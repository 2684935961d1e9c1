"""What a test may take of a machine, and how links and GPUs compare."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.topology import LOCAL_LINK, DeviceKind, Devices, Gpu, Link, LinkKind, Topology
from pytest_tfperf.errors import NotEnoughDevices, TfperfError
from tests.helpers.machines import DATA, NAMES, linked, load, machines

DGX1, H200, MIXED, NO_GPU = load("dgx1-p100"), load("h200"), load("mixed"), load("no-gpu")


def indices(topology: Topology) -> list[int]:
    return [gpu.index for gpu in topology.gpus]


@given(machines(), st.integers(1, 6))
def test_taken_gpus_are_as_many_as_wanted_equal_and_best_linked(machine, n):
    try:
        taken = machine.take(n)
    except NotEnoughDevices:
        return
    assert len(taken.gpus) == n
    (kind,) = {(gpu.name, gpu.memory_bytes) for gpu in taken.gpus}
    assert taken.machine == machine.machine
    at = [machine.gpus.index(gpu) for gpu in taken.gpus]
    assert taken.links == tuple(tuple(machine.links[i][j] for j in at) for i in at)
    equal = [i for i, gpu in enumerate(machine.gpus) if (gpu.name, gpu.memory_bytes) == kind]

    def worst(indices):
        return min((machine.links[i][j].quality for i, j in combinations(indices, 2)), default=0)

    assert worst(at) == max(map(worst, combinations(equal, n)))


@pytest.mark.parametrize(
    ("machine", "n", "taken"),
    [
        (DGX1, 4, [0, 1, 2, 3]),  # one of its quads
        (linked(4, {(0, 1): "PIX", (2, 3): "NV2", (1, 2): "NV1"}), 2, [2, 3]),
        # The worst link counts before the total.
        (
            linked(6, {(0, 1): "NV4", (0, 2): "NV4", (3, 4): "PIX", (4, 5): "PIX", (3, 5): "PIX"}),
            3,
            [3, 4, 5],
        ),
        (linked(5, {}, rest="NV6"), 3, [0, 1, 2]),  # ties go to the lowest
        (MIXED, 2, [1, 2]),  # the equal ones
        (load("4x-gtx-1080-ti"), 4, [0, 1, 2, 3]),  # one has a few MiB less
    ],
)
def test_the_best_linked_equal_gpus_are_taken(machine, n, taken):
    assert indices(machine.take(n)) == taken


@pytest.mark.parametrize("taken", [MIXED.take(1), MIXED.split().take(1)], ids=["whole", "split"])
def test_a_single_gpu_is_the_fastest_and_not_the_first_one(taken):
    assert MIXED.gpus[0].fp32_tflops < MIXED.gpus[1].fp32_tflops
    assert indices(taken) == [1]


@pytest.mark.parametrize(
    ("machine", "n", "message"),
    [
        (DGX1, 9, r"needs 9 equal GPUs, and this machine has 8: 8x Tesla P100-SXM2-16GB"),
        (MIXED, 3, r"has 3: 1x NVIDIA GeForce GTX 1080 Ti \+ 2x NVIDIA GeForce RTX 3090"),
        (NO_GPU, 1, r"needs 1 GPU, .* has none: there is no libnvidia-ml.*\. A test without the mark `gpu`"),
        (DGX1.showing([0, 1], "CUDA_VISIBLE_DEVICES='0,1' shows 2 of 8 GPUs"), 4, r"CUDA_VISIBLE_DEVICES='0,1'"),
    ],
)
def test_too_few_gpus_say_what_is_needed_and_what_there_is(machine, n, message):
    with pytest.raises(NotEnoughDevices, match=message) as caught:
        machine.take(n)
    assert caught.value.wanted == n


@pytest.mark.parametrize("count", [0, 1.5, True, "2"])
def test_a_count_below_one_is_an_error(count):
    with pytest.raises(TfperfError, match=f"devices={count!r} must be a whole number of at least 1"):
        DGX1.take(count)
    for wrong in (lambda: DGX1.take(1, nodes=count), lambda: DGX1.nodes(count)):
        with pytest.raises(TfperfError, match=f"nodes={count!r} must be a whole number of at least 1"):
            wrong()


# Several nodes


def of_several(machine, most=4, link="10gbe"):
    """This machine as one of several."""
    return replace(machine, most_nodes=most, node_link=link)


@pytest.mark.parametrize("machine", [DGX1, NO_GPU.on_cpu(), H200.split()])
def test_nodes_before_devices_and_both_at_once_take_the_same(machine):
    several = of_several(machine)
    assert several.nodes(2).take(1) == several.take(1, nodes=2)
    assert several.take(1, nodes=1) == several.nodes(1).take(1) == several.take(1)


@pytest.mark.parametrize("again", [1, 3])
def test_another_number_of_nodes_than_before_is_an_error(again):
    several = of_several(DGX1).nodes(2)
    assert several.take(1, nodes=2) == several.take(1)
    for wrong in (lambda: several.take(1, nodes=again), lambda: several.nodes(again)):
        with pytest.raises(TfperfError, match=rf"nodes={again} after nodes\(2\): give the number of nodes once"):
            wrong()


def test_devices_are_taken_on_each_node():
    taken = of_several(DGX1).take(2, nodes=3)
    assert (taken.shape, taken.devices.count, len(taken.gpus)) == ("3x2", 2, 2)


def test_each_of_several_machines_gives_its_first_gpus_because_only_this_ones_links_are_known():
    machine = of_several(linked(4, {(2, 3): "NV2"}))
    assert (indices(machine.take(2)), indices(machine.take(2, nodes=2))) == ([2, 3], [0, 1])
    assert indices(of_several(MIXED).take(2, nodes=2)) == [1, 2]  # the equal ones


@pytest.mark.parametrize("wanted", [3, 100])
def test_too_many_nodes_say_how_many_the_launcher_knows_and_are_no_lack_of_gpus(wanted):
    several = of_several(DGX1, most=2)
    assert several.take(8, nodes=2).node_count == 2
    with pytest.raises(NotEnoughDevices, match=f"needs {wanted} nodes, and --tfperf-launcher knows of 2") as caught:
        several.take(1, nodes=wanted)
    assert caught.value.wanted == 0


def test_a_machine_by_itself_is_one_node():
    with pytest.raises(NotEnoughDevices, match="needs 2 nodes"):
        DGX1.take(1, nodes=2)


def test_any_number_of_nodes_can_be_asked_of_a_launcher_that_does_not_know_how_many_there_are():
    assert of_several(DGX1, most=None).take(1, nodes=1000).node_count == 1000


@given(st.integers(1, 4), st.integers(1, 4))
def test_nodes_that_are_processes_of_this_machine_share_its_gpus(nodes, count):
    machine = of_several(DGX1, most=64, link=LOCAL_LINK)
    if nodes * count > len(DGX1.gpus):
        with pytest.raises(NotEnoughDevices, match=f"needs {nodes * count} equal GPUs, and this machine has 8"):
            machine.take(count, nodes=nodes)
        return
    taken = machine.take(count, nodes=nodes)
    assert (taken.node_count, taken.devices.count, taken.shape) == (nodes, count, f"{nodes}x{count}")
    assert taken.devices.gpu_uuids == DGX1.take(nodes * count).devices.gpu_uuids


def test_parts_of_one_gpu_can_not_stand_for_nodes():
    with pytest.raises(NotEnoughDevices, match="parts of one GPU can't stand for nodes"):
        of_several(H200, link=LOCAL_LINK).split().take(2, nodes=2)


def test_on_cpus_each_of_several_processes_has_all_the_devices():
    devices = of_several(DGX1, link=LOCAL_LINK).on_cpu().take(4, nodes=2).devices
    assert devices == Devices(kind=DeviceKind.CPU, count=4)


@pytest.mark.parametrize(
    ("taken", "text"),
    [
        (of_several(DGX1).take(4, nodes=2), "2 nodes, each with 4x Tesla P100-SXM2-16GB"),
        (
            of_several(NO_GPU).on_cpu().take(2, nodes=3),
            "3 nodes, each with 2 virtual CPU devices on 2 of 2 cores of AMD EPYC",
        ),
        (of_several(DGX1, link=LOCAL_LINK).take(2, nodes=2), "2 nodes, each with 2x Tesla P100-SXM2-16GB"),
    ],
)
def test_several_nodes_are_described(taken, text):
    assert taken.describe() == text


def test_one_process_gets_one_mig_device_only():
    mig = replace(DGX1, gpus=tuple(replace(gpu, mig_profile="1g.5gb") for gpu in DGX1.gpus))
    with pytest.raises(NotEnoughDevices, match="one MIG device"):
        mig.take(2)


def test_a_worker_gets_the_taken_gpus_uuids():
    taken = MIXED.take(2)
    uuids = tuple(gpu.uuid for gpu in taken.gpus)
    assert taken.devices == Devices(kind=DeviceKind.GPU, count=2, gpu_uuids=uuids, gpu_indices=(1, 2))


@pytest.mark.parametrize("machine", [DGX1.on_cpu(), H200.split()])
def test_more_logical_devices_than_tensorflow_can_make_are_refused_before_a_worker_starts(machine):
    assert machine.take(64).devices.count == 64
    with pytest.raises(NotEnoughDevices, match=r"needs 100,000 .*, and a test can take at most 64"):
        machine.take(100_000)


@pytest.mark.parametrize("machine", [DGX1, NO_GPU])
def test_any_machine_gives_virtual_cpu_devices(machine):
    assert machine.on_cpu().take(4).devices == Devices(kind=DeviceKind.CPU, count=4)


def test_a_split_gpu_gives_logical_ones():
    devices = Devices(kind=DeviceKind.GPU, count=4, gpu_uuids=(H200.gpus[0].uuid,), gpu_indices=(0,), split=True)
    assert H200.split().take(4).devices == devices
    with pytest.raises(NotEnoughDevices):
        NO_GPU.split()


@pytest.mark.parametrize(
    ("topology", "shape", "text", "taken"),
    [
        (DGX1, "1x8", "8x Tesla P100-SXM2-16GB", False),
        (DGX1.take(2), "1x2", "2x Tesla P100-SXM2-16GB", True),
        (NO_GPU, "1x1", "2 of 2 cores of AMD EPYC", False),
        (NO_GPU.on_cpu().take(2), "1x2", "2 virtual CPU devices on 2 of 2 cores of AMD EPYC", True),
        (H200.split(), "1x1", "1x NVIDIA H200", False),
        (H200.split().take(4), "1x4", "1x NVIDIA H200, split into 4", True),
    ],
)
def test_shape_and_description(topology, shape, text, taken):
    assert (topology.shape, topology.describe(), topology.is_taken) == (shape, text, taken)


def test_gpus_of_one_name_and_different_memory_are_not_equal():
    small, large = (replace(H200.gpus[0], uuid=f"GPU-{gib}", memory_bytes=gib * 2**30) for gib in (80, 141))
    links = ((None, Link(LinkKind.SYS)), (Link(LinkKind.SYS), None))
    with pytest.raises(NotEnoughDevices, match="needs 2 equal GPUs"):
        replace(H200, gpus=(small, large), links=links).take(2)


def test_links_are_ordered_by_quality():
    words = ["NV18", "NV2", "NV1", "PIX", "PXB", "PHB", "NODE", "SYS", "?"]
    assert sorted(words, key=lambda word: -Link.parse(word).quality) == words


@pytest.mark.parametrize("word", ["NV", "NV0", "pix", ""])
def test_a_word_that_is_no_link_lists_the_good_ones(word):
    with pytest.raises(TfperfError, match="PHB, PIX, PXB"):
        Link.parse(word)


def test_the_peak_rate_of_a_p100_is_that_of_its_data_sheet():
    assert DGX1.gpus[0].fp32_tflops == pytest.approx(10.6, abs=0.05)
    assert Gpu(index=0, uuid="GPU-0", name="A", cores=3584).fp32_tflops is None


@pytest.mark.parametrize("name", NAMES)
def test_the_json_of_a_machine_has_its_facts_and_its_key(name):
    assert load(name).to_json() == json.loads((DATA / f"{name}.json").read_text())
