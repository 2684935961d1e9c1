"""A workload's id is readable, stable and unique; contradictions and unknown words are refused."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pytest_tfperf.core.workload import (
    AllReduce,
    Optimizer,
    ParameterDevice,
    Precision,
    Trainer,
    Unit,
    VariableUpdate,
    Workload,
)
from pytest_tfperf.errors import WorkloadError

# Words with a meaning in ids are among them, so that names made of them are tried.
words = st.sampled_from(
    ["b64", "b0", "replicated", "collective", "device", "nccl", "ring", "copy", "xla", "keras", "packs4"]
) | st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)
registered = st.lists(words, min_size=1, max_size=4).map("-".join)
paths = st.from_regex(r"[A-Za-z_]\w{0,5}(\.[A-Za-z_]\w{0,5}){0,2}:[A-Za-z_]\w{0,5}", fullmatch=True)
fields = st.fixed_dictionaries(
    {"model": registered | paths, "batch_size": st.integers(1, 999_999_999)},
    optional={
        "input_pipeline": registered | paths,
        "variable_update": st.sampled_from(VariableUpdate),
        "all_reduce": st.sampled_from(AllReduce),
        "num_packs": st.integers(0, 999),
        "local_parameter_device": st.sampled_from(ParameterDevice),
        "precision": st.sampled_from(Precision),
        "tf32": st.booleans(),
        "optimizer": st.sampled_from(Optimizer),
        "xla": st.booleans(),
        "trainer": st.sampled_from(Trainer),
        "forward_only": st.booleans(),
        "unit": st.sampled_from(Unit),
        "tokens_of": st.sampled_from(["ids", "0", "b64", "in_tokens", "x-in_tokens_of_y", "ids-keras", ""]),
    },
)


def accepted(choices: dict[str, Any]) -> Workload:
    try:
        return Workload(**choices)
    except WorkloadError:
        assume(False)
        raise


workloads = fields.map(accepted)


@given(workloads)
@example(Workload(model="m", batch_size=1, input_pipeline="b2-replicated-device"))
def test_every_workload_is_parsed_from_its_id(workload: Workload) -> None:
    assert Workload.parse(workload.id) == workload


@given(st.text(max_size=60) | st.lists(words | st.sampled_from(["b1", "mixed_float16"]), max_size=9).map("-".join))
def test_text_is_either_an_id_or_refused(text: str) -> None:
    try:
        parsed = Workload.parse(text)
    except WorkloadError:
        return
    assert parsed.id == text


@pytest.mark.parametrize(
    "text",
    [
        "m-b1-replicated-copy-device",
        "m-b1-horovod-ring-device",
        "m-b1-replicated-device-xla-mixed_float16",
        "m-b1-replicated-nccl-device-packs0",
        "m-b1-replicated-nccl-device-xla-packs4",
        "m-b1-replicated-nccl-device-parameters_on_gpu",
        "m-b1-independent-device-parameters_on_gpu",
        "m-b01-replicated-device",
        "m-b\N{ARABIC-INDIC DIGIT THREE}-replicated-device",
        "m-b1-replicated-device\n",
        "",
    ],
)
def test_text_that_is_nearly_an_id_is_refused(text: str) -> None:
    with pytest.raises(WorkloadError):
        Workload.parse(text)


def test_a_bad_id_is_told_what_one_looks_like() -> None:
    with pytest.raises(WorkloadError, match="as in 'resnet50-b64-replicated-device'"):
        Workload.parse("resnet50")


@pytest.mark.parametrize(
    ("choices", "id"),
    [
        ({}, "m-b1-replicated-device"),
        ({"forward_only": True}, "m-b1-replicated-device-forward_only"),
        ({"optimizer": "momentum", "xla": True}, "m-b1-replicated-device-xla-momentum"),
        ({"unit": "tokens", "trainer": "keras"}, "m-b1-replicated-device-keras-in_tokens"),
        ({"unit": "tokens", "tokens_of": "ids"}, "m-b1-replicated-device-in_tokens_of_ids"),
        ({"variable_update": "collective"}, "m-b1-collective-device"),
        ({"variable_update": "collective", "all_reduce": "ring"}, "m-b1-collective-ring-device"),
        ({"variable_update": "horovod", "all_reduce": "nccl"}, "m-b1-horovod-nccl-device"),
        (
            {"variable_update": "parameter_server", "local_parameter_device": "gpu"},
            "m-b1-parameter_server-device-parameters_on_gpu",
        ),
        ({"local_parameter_device": "gpu"}, "m-b1-replicated-device-parameters_on_gpu"),
        (
            {
                "model": "pkg.nets:build",
                "input_pipeline": "python",
                "all_reduce": "nccl",
                "num_packs": 4,
                "precision": "mixed_float16",
                "tf32": False,
                "xla": True,
                "trainer": "keras",
            },
            "pkg.nets:build-b1-replicated-nccl-python-packs4-mixed_float16-no_tf32-xla-keras",
        ),
    ],
)
def test_the_id_names_what_is_not_the_default(choices: dict[str, Any], id: str) -> None:
    workload = Workload(**{"model": "m", "batch_size": 1} | choices)
    assert workload.id == str(workload) == id


@pytest.mark.parametrize(
    ("update", "default"),
    [
        ("replicated", "copy"),
        ("parameter_server", "copy"),
        ("independent", "copy"),
        ("collective", "auto"),
        ("horovod", "auto"),
    ],
)
def test_each_variable_update_has_an_all_reduce_of_its_own(update: Any, default: str) -> None:
    workload = Workload(model="m", batch_size=1, variable_update=update)
    assert workload.all_reduce == default
    assert workload == Workload(model="m", batch_size=1, variable_update=update, all_reduce=AllReduce.AUTO)


@given(st.sampled_from(VariableUpdate), st.sampled_from(VariableUpdate))
def test_another_variable_update_brings_its_own_all_reduce(one: VariableUpdate, other: VariableUpdate) -> None:
    workload = Workload(model="m", batch_size=1, variable_update=one)
    assert workload.with_(variable_update=other) == Workload(model="m", batch_size=1, variable_update=other)


def test_an_all_reduce_that_was_chosen_stays_with_another_variable_update() -> None:
    chosen = Workload(model="m", batch_size=1, all_reduce=AllReduce.NCCL)
    assert chosen.with_(variable_update="collective").all_reduce is AllReduce.NCCL
    with pytest.raises(WorkloadError, match="'nccl' is no choice of variable_update='independent'"):
        chosen.with_(variable_update="independent")


def test_an_all_reduce_and_its_update_can_change_together() -> None:
    changed = Workload(model="m", batch_size=1).with_(variable_update="collective", all_reduce="ring")
    assert changed.id == "m-b1-collective-ring-device"


PIPELINE_NAMES = [f"my-{word}" for word in ("xla", "keras", "copy", "hierarchical", "ring", "nccl", "packs4")]
NO_NAMES = ["", "Resnet", "a b", "-a", "a--b", "a:", ":f", "a.b", "a:b:c", "a\n", 5]


@pytest.mark.parametrize(
    ("field", "values", "message"),
    [
        ("variable_update", ["replicatd"], r"'replicatd'. Did you mean 'replicated'\? Known: collective, hor"),
        ("batch_size", [0, -1, 1.0, True, "64", None, 10**9], "whole number from 1"),
        ("model", NO_NAMES, "model=.*is not a name"),
        ("input_pipeline", NO_NAMES, "input_pipeline=.*is not a name"),
        ("input_pipeline", PIPELINE_NAMES, "has another meaning in a workload's id"),
        ("model", ["net-b64"], "means the batch size"),
        ("num_packs", [-1, 1000, True, 2.0, "4", None], r"whole number from 0 \(no packing\)"),
        ("tokens_of", ["a b", "text/ids", "a:b", "ids\n", 0, None], "tokens_of=.*must be the name of a model's input"),
        ("tf32", ["no"], "tf32='no' must be True or False"),
        ("xla", [1], "xla=1 must be True or False"),
        ("forward_only", [None], "forward_only=None must be True or False"),
    ],
)
def test_a_value_that_a_field_can_not_have_is_refused(field: str, values: list[Any], message: str) -> None:
    for value in values:
        with pytest.raises(WorkloadError, match=message):
            Workload(**{"model": "m", "batch_size": 1} | {field: value})
        with pytest.raises(WorkloadError, match=message):
            Workload(model="m", batch_size=1).with_(**{field: value})


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (
            {"variable_update": "parameter_server", "all_reduce": "hierarchical"},
            "'hierarchical' is no choice of variable_update='parameter_server': leave it out",
        ),
        (
            {"local_parameter_device": "gpu", "all_reduce": "nccl"},
            "of 'replicated' with all_reduce='copy'; leave it out with 'replicated' and 'nccl'",
        ),
        (
            {"local_parameter_device": "gpu", "variable_update": "independent"},
            "choice of variable_update='parameter_server', and of 'replicated'",
        ),
        (
            {"variable_update": "collective", "all_reduce": "copy"},
            "'copy' is no choice of variable_update='collective': use 'auto' or 'ring' or 'nccl'",
        ),
        ({"all_reduce": "ring"}, "no choice of variable_update='replicated': use 'copy' or 'hierarchical' or 'nccl'"),
        ({"num_packs": 4}, "packs the gradients of variable_update='replicated' for all_reduce='hierarchical' or"),
        (
            {"variable_update": "collective", "all_reduce": "nccl", "num_packs": 4},
            "packs the gradients of variable_update='replicated'",
        ),
        ({"trainer": "keras", "variable_update": "collective"}, r"keras#20585.*use trainer='loop'"),
        ({"trainer": "keras", "variable_update": "horovod"}, r"no Horovod callback; use trainer='loop'"),
        ({"optimizer": "momentum", "forward_only": True}, "no effect with forward_only=True"),
        (
            {"tokens_of": "ids"},
            "tokens_of='ids' names what unit='tokens' counts: give that unit",
        ),
        ({"trainer": "own", "unit": "tokens", "tokens_of": "ids"}, "leave out unit, tokens_of"),
        ({"trainer": "keras", "forward_only": True}, "use trainer='loop' with 'forward_only'"),
        ({"trainer": "keras", "variable_update": "independent"}, "use trainer='loop' with 'independent'"),
    ],
)
def test_choices_that_contradict_each_other_are_refused(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        Workload(**{"model": "m", "batch_size": 1} | choices)


def test_type_checkers_see_an_argument_for_each_field() -> None:
    tree = ast.parse(inspect.getsource(Workload))
    (declared,) = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    names, required = [one.arg for one in declared.args.kwonlyargs], declared.args.kw_defaults.count(None)
    assert (names, required) == ([field.name for field in dataclasses.fields(Workload)], 2)
