"""How many ranks a job has, what each of them trains, and where a rank stands among those of its host."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.job import Cluster, Job
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import VariableUpdate, Workload


def job(update: VariableUpdate, count: int, nodes: int = 1, *, uuids: bool = False) -> Job:
    """One with GPUs, whose UUIDs are those of all processes on this machine together."""
    workload = Workload(model="trivial", batch_size=1, variable_update=update)
    gpus = tuple(f"GPU-{i}" for i in range(count * nodes)) if uuids else ()
    return Job(workload=workload, devices=Devices(kind=DeviceKind.GPU, count=count, gpu_uuids=gpus), nodes=nodes)


@pytest.mark.parametrize(
    ("update", "nodes", "ranks_per_node", "is_distributed"),
    [
        (VariableUpdate.REPLICATED, 1, 1, False),
        (VariableUpdate.COLLECTIVE, 1, 1, False),
        (VariableUpdate.COLLECTIVE, 2, 1, True),
        (VariableUpdate.HOROVOD, 1, 4, True),
        (VariableUpdate.HOROVOD, 2, 4, True),
    ],
)
def test_horovod_has_a_rank_for_each_device_and_the_others_one_for_each_node(
    update: VariableUpdate, nodes: int, ranks_per_node: int, is_distributed: bool
) -> None:
    found = job(update, 4, nodes)
    assert (found.ranks_per_node, found.ranks) == (ranks_per_node, nodes * ranks_per_node)
    assert found.is_distributed is is_distributed


def test_horovod_with_one_rank_is_distributed_too() -> None:
    assert job(VariableUpdate.HOROVOD, 1).is_distributed  # it starts Horovod as with several


@given(st.sampled_from([VariableUpdate.COLLECTIVE, VariableUpdate.HOROVOD]), st.integers(1, 8), st.integers(1, 4))
def test_ranks_on_one_machine_share_its_gpus_and_leave_none(update: VariableUpdate, count: int, nodes: int) -> None:
    whole = job(update, count, nodes, uuids=True)
    parts = [whole.for_rank(rank).devices for rank in range(whole.ranks)]
    assert [uuid for part in parts for uuid in part.gpu_uuids] == list(whole.devices.gpu_uuids)
    assert {part.count for part in parts} == {len(part.gpu_uuids) for part in parts}


@pytest.mark.parametrize(("update", "count"), [(VariableUpdate.COLLECTIVE, 4), (VariableUpdate.HOROVOD, 1)])
def test_a_rank_whose_gpus_have_no_names_here_has_its_number_of_devices(update: VariableUpdate, count: int) -> None:
    devices = job(update, 4, 2).for_rank(1).devices
    assert devices == Devices(kind=DeviceKind.GPU, count=count)


# Ranks and hosts


def cluster(rank: int, *hosts: str) -> Cluster:
    addresses = tuple(f"{host}:{number}" for number, host in enumerate(hosts))
    return Cluster(rank=rank, addresses=addresses, hosts=hosts, timeout_seconds=60.0)


@pytest.mark.parametrize(
    ("hosts", "local"),
    [
        (["a"], [(0, 1)]),
        (["a", "b"], [(0, 1), (0, 1)]),
        (["a", "a", "b", "b"], [(0, 2), (1, 2), (0, 2), (1, 2)]),
        (["a", "b", "a"], [(0, 2), (0, 1), (1, 2)]),
    ],
    ids=["one", "one on each", "in blocks", "in turns"],
)
def test_a_rank_knows_its_place_among_those_of_its_host(hosts: list[str], local: list[tuple[int, int]]) -> None:
    ranks = [cluster(rank, *hosts) for rank in range(len(hosts))]
    assert [(one.local_rank, one.local_size) for one in ranks] == local
    assert {one.size for one in ranks} == {len(hosts)}


@pytest.mark.parametrize(
    "sent", [job(VariableUpdate.COLLECTIVE, 2, 2, uuids=True), cluster(1, "a", "b")], ids=["job", "cluster"]
)
def test_what_crosses_the_wire_arrives_as_it_was_sent(sent: Job | Cluster) -> None:
    assert build(type(sent), plain(sent), "message") == sent
