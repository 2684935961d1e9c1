"""The short names of workloads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        ([("a:net-b1-replicated-device", ""), ("b:net-b2-replicated-device", "")], ["a:net-b1", "b:net-b2"]),
        (
            [("zoo.text.model:net-b1-replicated-device", ""), ("zoo.vision.model:net-b2-replicated-device", "")],
            ["text.model:net-b1", "vision.model:net-b2"],
        ),
        (
            [("model:net-b1-replicated-device", ""), ("zoo.model:net-b2-replicated-device", "")],
            ["model:net-b1", "zoo.model:net-b2"],
        ),
        (
            [("acme.nets:resnet50-b1-replicated-device", ""), ("resnet50-b2-replicated-device", "")],
            ["nets:resnet50-b1", "resnet50-b2"],
        ),
        ([("a:net-b1-replicated-device", "cnn"), ("b:net-b2-replicated-device", "")], ["cnn", "net-b2"]),
    ],
    ids=[
        *("a name", "an own function", "a shipped model", "two functions", "two workloads", "named once"),
        *("two functions that differ in the batch", "two packages", "one package below", "a shipped model's name"),
        "two functions, one of them named",
    ],
)
def test_a_table_shows(workloads: list[tuple[str, str]], shown: list[str]) -> None:
    found = shown_names(workloads)
    assert [found[one].removesuffix("-replicated-device") for one in workloads] == [
        text.removesuffix("-replicated-device") for text in shown
    ]


modules = st.lists(st.sampled_from(["a", "b", "model"]), min_size=1, max_size=3).map(".".join)


@given(st.lists(st.tuples(modules, st.sampled_from(["net", "cnn"]), st.sampled_from([1, 2])), unique=True))
def test_different_workloads_are_never_shown_alike(functions: list[tuple[str, str, int]]) -> None:
    workloads = [(f"{module}:{name}-b{batch}-replicated-device", "") for module, name, batch in functions]
    shown = [text.partition("-")[0] for text in shown_names(workloads).values()]
    assert len(set(shown)) == len({(module, name) for module, name, _ in functions})


def test_a_part_of_a_shipped_models_name_is_no_function_of_that_name() -> None:
    named = shown_names([("bert-tiny-b1-replicated-device", ""), ("nets:tiny-b1-replicated-device", "")])
    assert list(named.values()) == ["bert-tiny-b1-replicated-device", "tiny-b1-replicated-device"]
