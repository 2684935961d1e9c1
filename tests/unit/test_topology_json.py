"""Snapshots: written, read again, and refused where they are faulty."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from machines import DATA, NAMES, load, machines

from pytest_tfperf.core.topology import Topology
from pytest_tfperf.errors import TfperfError

BARE_HOST = {"cpu_model": "A", "usable_cores": 1, "total_cores": 1}


@given(machines())
def test_json_gives_the_machine_again(machine):
    assert Topology.from_json(json.loads(json.dumps(machine.to_json()))) == machine


@pytest.mark.parametrize("topology", [load("dgx1-p100").take(3), load("h200").split().take(2), load("mixed").on_cpu()])
def test_json_gives_what_was_taken_again(topology):
    assert Topology.from_json(topology.to_json()) == topology


@pytest.mark.parametrize("name", NAMES)
def test_a_snapshot_names_its_machine(name):
    assert json.loads((DATA / f"{name}.json").read_text())["machine"] == load(name).machine


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "not a topology of version 1: write it again"),
        ({"gpu": []}, "unknown field 'gpu'. Did you mean 'gpus'"),
        ({"host": None}, "expected an object with the fields of Host"),
        ({"host": {"cpu_model": "A", "usable_cores": 1}}, "'total_cores' is missing"),
        ({"host": BARE_HOST | {"usable_cores": True}}, "usable_cores: expected int, found True"),
        ({"host": BARE_HOST | {"usable_cores": 0}}, "at least 1"),
        ({"gpus": {}}, "gpus: expected list"),
        ({"gpus": [1]}, r"gpus\[0\]: expected an object"),
        ({"links": [[None]]}, "0 GPUs need a symmetric matrix of 0 rows"),
        ({"devices": {"kind": "TPU", "count": 1}}, "unknown DeviceKind 'TPU'"),
    ],
)
def test_a_faulty_snapshot_names_the_field(change, message):
    with pytest.raises(TfperfError, match=message):
        Topology.from_json(load("no-gpu").to_json() | change)


@pytest.mark.parametrize(
    ("cell", "message"),
    [(None, "symmetric matrix"), ("SYS", "symmetric matrix"), ("NVLINK", "unknown link"), (4, "fields of Link, found")],
)
def test_a_faulty_link_is_an_error(cell, message):
    value = load("dgx1-p100").to_json()
    value["links"][0][1] = cell
    with pytest.raises(TfperfError, match=message):
        Topology.from_json(value)


@pytest.mark.parametrize("text", [b'{"version": 1', b"\xff\xfe", b"{}", b"[]", None])
def test_a_file_that_is_missing_or_no_snapshot_is_named(tmp_path, text):
    path = tmp_path / "machine.json"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(TfperfError, match=r"machine\.json"):
        Topology.load(path)
