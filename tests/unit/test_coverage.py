from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measurements import baseline

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.reports.coverage import coverage
from pytest_tfperf.reports.document_coverage import key_of, not_built, unmeasured

RESNET50 = Workload(model="resnet50", batch_size=64)


def row(topology: str, document: str = "a.md", **more: Any) -> Any:
    return baseline(key=Key(RESNET50.id, topology), source=f"{document}, test 1", **more)


def test_a_workload_and_gpus_are_a_key() -> None:
    assert key_of({"w": RESNET50, "gpus": 4, "other": "x"}) == Key(RESNET50.id, "1x4")


def test_nodes_are_a_part_of_the_key() -> None:
    assert key_of({"w": RESNET50, "gpus": 1, "nodes": 2}) == Key(RESNET50.id, "2x1")


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"gpus": 1},
        {"w": RESNET50},
        {"w": RESNET50, "gpus": "all"},
        {"w": RESNET50, "gpus": 1, "nodes": None},
        {"w": RESNET50, "v": RESNET50, "gpus": 1},
    ],
)
def test_a_test_that_does_not_tell_has_no_key(parameters: dict[str, object]) -> None:
    assert key_of(parameters) is None


@given(st.sets(st.integers(1, 9)), st.sets(st.integers(1, 9)))
def test_rows_without_a_test_are_those_that_no_key_names(rows: set[int], tested: set[int]) -> None:
    found = unmeasured([row(f"1x{n}") for n in sorted(rows)], {Key(RESNET50.id, f"1x{n}") for n in tested})
    assert [int(one.key.topology[2:]) for one in found] == sorted(rows - tested)


def test_one_test_measures_the_rows_of_every_machine() -> None:
    rows = [row("1x4", machine=machine) for machine in ("one", "other")]
    assert unmeasured(rows, {Key(RESNET50.id, "1x4")}) == []


def test_each_document_is_counted() -> None:
    rows = [row("1x1"), row("1x2"), row("1x1", "b.md")]
    assert coverage(rows, rows[1:2], {})[:2] == ["a.md: 1 of 2 figures have a test", "b.md: 1 of 1 figures have a test"]


def test_a_row_without_a_test_is_named_with_its_document() -> None:
    rows = [row("1x1", machine="dgx1")]
    assert coverage(rows, rows, {})[1] == "no test: resnet50-b64-replicated-device on 1x1 (1 figure of a.md, of dgx1)"


def test_rows_of_one_workload_without_a_test_take_one_line() -> None:
    rows = [row(topology, machine=machine) for topology in ("1x1", "2x1") for machine in ("one", "other")]
    assert [line for line in coverage(rows, rows, {}) if line.startswith("no test")] == [
        "no test: resnet50-b64-replicated-device on 1x1, 2x1 (4 figures of a.md, of one, other)"
    ]


def test_rows_with_a_test_that_can_not_be_trained_yet_are_counted() -> None:
    rows = [row("1x1"), row("1x2"), row("2x1")]
    words = {rows[0].key: "horovod", rows[1].key: "horovod"}
    assert coverage(rows, rows[1:2], words)[0] == (
        "a.md: 2 of 3 figures have a test, 1 of them not built yet (horovod)"
    )


def test_what_keeps_a_row_from_being_trained_is_said_in_a_word() -> None:
    horovod = baseline(key=Key(RESNET50.with_(variable_update="horovod").id, "1x1"))
    assert list(not_built([row("1x4"), row("2x1"), horovod]).values()) == ["several nodes", "horovod"]


def test_where_all_have_a_test_nothing_is_to_be_done() -> None:
    assert coverage([row("1x1")], [], {}) == ["a.md: 1 of 1 figures have a test"]
