"""What a test may take of a machine, and how links and GPUs compare."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import NAMES, linked, load, machines

from pytest_tfperf.core.topology import DeviceKind, Devices, Gpu, Link, LinkKind, Topology
from pytest_tfperf.errors import NotEnoughDevices, TfperfError


def indices(topology: Topology) -> list[int]:
    return [gpu.index for gpu in topology.gpus]


# take


@settings(deadline=None)
@given(machines(), st.integers(1, 6))
def test_taken_gpus_are_as_many_as_asked_for_and_equal(machine, n):
    try:
        taken = machine.take(n)
    except NotEnoughDevices:
        return
    assert (len(taken.gpus), len({(gpu.name, gpu.memory_bytes) for gpu in taken.gpus})) == (n, 1)


@settings(deadline=None)
@given(machines(), st.integers(1, 6))
def test_taken_links_are_the_machines(machine, n):
    try:
        taken = machine.take(n, unequal=True)
    except NotEnoughDevices:
        return
    at = [machine.gpus.index(gpu) for gpu in taken.gpus]
    assert taken.links == tuple(tuple(machine.links[i][j] for j in at) for i in at)


@settings(deadline=None)
@given(machines(), st.integers(2, 6))
def test_no_other_set_has_a_better_worst_link(machine, n):
    try:
        taken = machine.take(n, unequal=True)
    except NotEnoughDevices:
        return
    worst = min(link.quality for row in taken.links for link in row if link)
    assert all(
        min(machine.links[i][j].quality for i, j in combinations(places, 2)) <= worst
        for places in combinations(range(len(machine.gpus)), n)
    )


@settings(deadline=None)
@given(machines(), st.integers(1, 6))
def test_taking_keeps_the_whole_machines_key(machine, n):
    try:
        assert machine.take(n).machine == machine.machine
    except NotEnoughDevices:
        return


def test_four_of_a_dgx1_are_one_of_its_quads():
    assert indices(load("dgx1-p100").take(4)) == [0, 1, 2, 3]


def test_the_best_linked_pair_is_taken():
    assert indices(linked(4, {(0, 1): "PIX", (2, 3): "NV2", (1, 2): "NV1"}).take(2)) == [2, 3]


def test_the_worst_link_counts_before_the_total():
    machine = linked(6, {(0, 1): "NV4", (0, 2): "NV4", (3, 4): "PIX", (4, 5): "PIX", (3, 5): "PIX"})
    assert indices(machine.take(3)) == [3, 4, 5]


def test_ties_go_to_the_lowest_indices():
    assert indices(linked(5, {}, rest="NV6").take(3)) == [0, 1, 2]


def test_more_sets_than_can_be_tried_are_searched_greedily():
    island = {pair: "NV4" for pair in combinations(range(30, 40), 2)}  # noqa: C420  # reads as the links that it makes
    assert indices(linked(40, island).take(10)) == list(range(30, 40))


def test_the_equal_ones_of_a_mixed_machine_are_taken():
    assert indices(load("mixed").take(2)) == [1, 2]


def test_a_few_mib_less_make_no_other_gpu():
    assert indices(load("4x-gtx-1080-ti").take(4)) == [0, 1, 2, 3]


def test_unequal_gpus_are_refused_by_their_names():
    with pytest.raises(
        NotEnoughDevices, match=r"1x NVIDIA GeForce GTX 1080 Ti \+ 2x NVIDIA GeForce RTX 3090\. At most 2"
    ):
        load("mixed").take(3)


def test_unequal_gpus_are_taken_when_asked_for():
    assert indices(load("mixed").take(3, unequal=True)) == [0, 1, 2]


def test_too_few_gpus_say_what_is_needed_and_what_there_is():
    with pytest.raises(NotEnoughDevices, match=r"needs 9 equal GPUs, and this machine has 8: 8x Tesla P100-SXM2-16GB"):
        load("dgx1-p100").take(9)


def test_too_few_gpus_say_how_many_were_wanted():
    with pytest.raises(NotEnoughDevices) as caught:
        load("dgx1-p100").take(9)
    assert caught.value.wanted == 9


def test_too_few_nodes_are_no_want_of_gpus():
    with pytest.raises(NotEnoughDevices) as caught:
        load("dgx1-p100").take(1, nodes=2)
    assert caught.value.wanted == 0


def test_no_gpus_say_why():
    with pytest.raises(NotEnoughDevices, match=r"needs 1 GPU, and this machine has none: there is no libnvidia-ml"):
        load("no-gpu").take(1)


def test_hidden_gpus_are_named_where_too_few_are_left():
    with pytest.raises(NotEnoughDevices, match="CUDA_VISIBLE_DEVICES"):
        load("dgx1-p100").showing([0, 1], "CUDA_VISIBLE_DEVICES='0,1' shows 2 of 8 GPUs").take(4)


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "2"])
def test_a_count_that_is_none_is_an_error(n):
    with pytest.raises(TfperfError, match="whole number"):
        load("dgx1-p100").take(n)


def test_a_worker_gets_the_taken_gpus_uuids():
    taken = load("mixed").take(2)
    assert taken.devices == Devices(kind=DeviceKind.GPU, count=2, gpu_uuids=tuple(gpu.uuid for gpu in taken.gpus))


def test_one_process_gets_one_mig_device_only():
    machine = load("dgx1-p100")
    slices = replace(machine, gpus=tuple(replace(gpu, mig_profile="1g.5gb") for gpu in machine.gpus))
    with pytest.raises(NotEnoughDevices, match="one MIG device"):
        slices.take(2, unequal=True)


@pytest.mark.parametrize("name", NAMES)
def test_any_machine_gives_virtual_cpu_devices(name):
    assert load(name).on_cpu().take(4).devices == Devices(kind=DeviceKind.CPU, count=4)


def test_a_split_gpu_gives_logical_ones():
    machine = load("h200")
    devices = Devices(kind=DeviceKind.GPU, count=4, gpu_uuids=(machine.gpus[0].uuid,), split=True)
    assert machine.split().take(4).devices == devices


def test_no_gpu_can_not_be_split():
    with pytest.raises(NotEnoughDevices):
        load("no-gpu").split()


@pytest.mark.parametrize(
    ("topology", "taken"),
    [
        (load("h200"), False),
        (load("h200").take(1), True),
        (load("no-gpu").on_cpu(), False),
        (load("no-gpu").on_cpu().take(1), True),
        (load("h200").split(), False),
        (load("h200").split().take(1), True),
    ],
)
def test_only_take_says_how_many_devices(topology, taken):
    assert topology.is_taken == taken


# shape and description


@pytest.mark.parametrize(
    ("topology", "shape"),
    [
        (load("dgx1-p100").take(4), "1x4"),
        (load("dgx1-p100"), "1x8"),
        (replace(load("dgx1-p100").take(4), nodes=2), "2x4"),
        (load("no-gpu").on_cpu().take(2), "1x2"),
        (load("no-gpu"), "1x1"),
        (load("no-gpu").on_cpu(), "1x1"),
        (load("h200").split().take(3), "1x3"),
    ],
)
def test_the_shape_is_nodes_by_devices(topology, shape):
    assert topology.shape == shape


@pytest.mark.parametrize(
    ("topology", "text"),
    [
        (load("dgx1-p100"), "8x Tesla P100-SXM2-16GB"),
        (load("dgx1-p100").take(2), "2x Tesla P100-SXM2-16GB"),
        (load("mixed"), "1x NVIDIA GeForce GTX 1080 Ti + 2x NVIDIA GeForce RTX 3090"),
        (load("no-gpu"), "2 of 2 cores of AMD EPYC"),
        (load("no-gpu").on_cpu().take(2), "2 virtual CPU devices on 2 of 2 cores of AMD EPYC"),
        (load("h200").split().take(4), "1x NVIDIA H200, split into 4"),
        (load("h200").split(), "1x NVIDIA H200"),
    ],
)
def test_the_description_is_a_short_line(topology, text):
    assert topology.describe() == text


# Facts of links and GPUs


def test_links_are_ordered_by_quality():
    words = ["NV18", "NV2", "NV1", "PIX", "PXB", "PHB", "NODE", "SYS", "?"]
    assert sorted(words, key=lambda word: -Link.parse(word).quality) == words


@pytest.mark.parametrize("word", ["NV", "NV0", "NV-1", "pix", "", "SOC"])
def test_a_word_that_is_no_link_lists_the_good_ones(word):
    with pytest.raises(TfperfError, match="PHB, PIX, PXB"):
        Link.parse(word)


@pytest.mark.parametrize(("kind", "nvlinks"), [(LinkKind.NVLINK, 0), (LinkKind.PIX, 2)])
def test_only_nvlinks_are_counted(kind, nvlinks):
    with pytest.raises(TfperfError):
        Link(kind, nvlinks)


def test_the_peak_rate_of_a_p100_is_that_of_its_data_sheet():
    assert load("dgx1-p100").gpus[0].fp32_tflops == pytest.approx(10.6, abs=0.05)


def test_an_unknown_clock_gives_no_peak_rate():
    assert Gpu(index=0, uuid="GPU-0", name="A", cores=3584).fp32_tflops is None


def test_one_node_is_what_is_taken_by_itself() -> None:
    assert load("dgx1-p100").take(2, nodes=1) == load("dgx1-p100").take(2)


def test_several_nodes_are_not_built_yet() -> None:
    with pytest.raises(NotEnoughDevices, match="needs 2 nodes, and training over several is not built yet"):
        load("dgx1-p100").take(1, nodes=2)


@pytest.mark.parametrize("nodes", [0, -1, True, "2"])
def test_nodes_are_a_whole_number_from_one(nodes: object) -> None:
    with pytest.raises(TfperfError, match="whole number of nodes from 1"):
        load("dgx1-p100").take(1, nodes=nodes)  # type: ignore[arg-type]
