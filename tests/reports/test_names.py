"""The short names of workloads."""

from __future__ import annotations

import pytest

from pytest_tfperf.reports.table import shown_names

OWN = "acme.models:small_cnn-b32-replicated-acme.pipelines:from_files"


@pytest.mark.parametrize(
    ("workloads", "shown"),
    [
        ([(OWN, "small-cnn")], ["small-cnn"]),
        ([(OWN, "")], ["small_cnn-b32-replicated-from_files"]),
        ([("resnet50-b64-replicated-device", "")], ["resnet50-b64-replicated-device"]),
        ([("a:net-b1-replicated-device", ""), ("b:net-b1-replicated-device", "")], ["a:net-b1", "b:net-b1"]),
        ([("a:net-b1-replicated-device", "cnn"), ("a:net-b2-replicated-device", "cnn")], ["a:net-b1", "a:net-b2"]),
        ([("a:net-b1-replicated-device", "cnn"), ("a:net-b1-replicated-device", "")], ["cnn", "net-b1"]),
    ],
    ids=["a name", "an own function", "a shipped model", "two functions", "two workloads", "named once"],
)
def test_a_table_shows(workloads: list[tuple[str, str]], shown: list[str]) -> None:
    found = shown_names(workloads)
    assert [found[one].removesuffix("-replicated-device") for one in workloads] == [
        text.removesuffix("-replicated-device") for text in shown
    ]
