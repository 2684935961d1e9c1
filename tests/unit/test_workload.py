from __future__ import annotations

import itertools
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
    VariableUpdate,
    Workload,
)
from pytest_tfperf.errors import WorkloadError

# Words that mean something in an id are among them, so that a name made of them is tried.
words = st.sampled_from(
    ["b64", "b0", "replicated", "device", "nccl", "copy", "xla", "keras", "packs4"]
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


def test_the_closed_choices_give_different_ids() -> None:
    choices = itertools.product(AllReduce, Precision, [True, False], [False, True])
    ids = {
        Workload(
            model="m",
            batch_size=1,
            all_reduce=reduce,
            precision=precision,
            tf32=tf32,
            xla=xla,
            **rest,
        ).id
        for reduce, precision, tf32, xla in choices
        for rest in (
            {},
            {"forward_only": True},
            {"optimizer": Optimizer.MOMENTUM},
            {"trainer": Trainer.KERAS},
            {"trainer": Trainer.KERAS, "optimizer": Optimizer.MOMENTUM},
        )
    }
    assert len(ids) == 3 * 3 * 2 * 2 * 5


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
        "m-b1-replicated-device-mixed_float16-mixed_bfloat16",
        "m-b1-replicated-device-xla-mixed_float16",
        "m-b1-replicated-device-xla-xla",
        "m-b1-replicated-nccl-device-packs0",
        "m-b1-replicated-nccl-device-packs04",
        "m-b1-replicated-nccl-device-xla-packs4",
        "m-b1-replicated-nccl-device-packs4-packs4",
        "m-b1-replicated-device-packs4",
        "m-b1-replicated-device-parameters_on_gpu",
        "m-b01-replicated-device",
        "m-b\N{ARABIC-INDIC DIGIT THREE}-replicated-device",
        "m-b1-replicated-device\n",
        "",
    ],
)
def test_what_is_nearly_an_id_is_none(text: str) -> None:
    with pytest.raises(WorkloadError):
        Workload.parse(text)


def test_a_bad_id_is_told_what_one_looks_like() -> None:
    with pytest.raises(WorkloadError, match="as in 'resnet50-b64-replicated-device'"):
        Workload.parse("resnet50")


@given(workloads)
def test_plain_values_make_the_workload_again(workload: Workload) -> None:
    assert Workload(**workload.to_json()) == workload


def test_defaults_are_left_out_of_the_id() -> None:
    assert Workload(model="resnet50", batch_size=64).id == "resnet50-b64-replicated-device"


def test_what_is_not_the_default_is_in_the_id() -> None:
    workload = Workload(
        model="pkg.nets:build",
        batch_size=8,
        input_pipeline="python",
        all_reduce=AllReduce.NCCL,
        num_packs=4,
        precision=Precision.MIXED_FLOAT16,
        tf32=False,
        xla=True,
        trainer=Trainer.KERAS,
    )
    assert workload.id == "pkg.nets:build-b8-replicated-nccl-python-packs4-mixed_float16-no_tf32-xla-keras"


def test_running_without_training_is_in_the_id() -> None:
    assert Workload(model="m", batch_size=1, forward_only=True).id == "m-b1-replicated-device-forward_only"


def test_parameters_that_are_not_on_the_cpu_are_in_the_id() -> None:
    workload = Workload(
        model="m",
        batch_size=1,
        variable_update=VariableUpdate.PARAMETER_SERVER,
        local_parameter_device=ParameterDevice.GPU,
    )
    assert workload.id == "m-b1-parameter_server-device-parameters_on_gpu"


def test_momentum_is_in_the_id() -> None:
    workload = Workload(model="m", batch_size=1, optimizer=Optimizer.MOMENTUM, xla=True)
    assert workload.id == "m-b1-replicated-device-xla-momentum"


def test_a_workload_reads_as_its_id() -> None:
    assert str(Workload(model="m", batch_size=1)) == "m-b1-replicated-device"


def test_words_are_taken_for_choices() -> None:
    assert Workload(model="m", batch_size=1, variable_update="parameter_server").variable_update is (  # type: ignore[arg-type]
        VariableUpdate.PARAMETER_SERVER
    )


def test_a_bad_choice_lists_the_good_ones() -> None:
    with pytest.raises(WorkloadError, match=r"'replicatd'. Did you mean 'replicated'\? Known: horovod, indep"):
        Workload(model="m", batch_size=1, variable_update="replicatd")  # type: ignore[arg-type]


@pytest.mark.parametrize("batch_size", [0, -1, 1.0, True, "64", None, 10**9])
def test_a_batch_is_a_whole_number_from_one(batch_size: Any) -> None:
    with pytest.raises(WorkloadError, match="whole number from 1"):
        Workload(model="m", batch_size=batch_size)


@pytest.mark.parametrize("name", ["", "Resnet", "a b", "-a", "a-", "a--b", "a:", ":f", "a.b", "a:b:c", "a\n", 5, None])
@pytest.mark.parametrize("field", ["model", "input_pipeline"])
def test_a_name_that_can_be_none_is_refused(field: str, name: Any) -> None:
    with pytest.raises(WorkloadError, match=f"{field}=.*is not a name"):
        Workload(**{"model": "m", "batch_size": 1} | {field: name})


@pytest.mark.parametrize("word", ["xla", "keras", "copy", "hierarchical", "nccl", "packs4"])
def test_a_pipeline_can_not_be_called_what_means_something_else(word: str) -> None:
    with pytest.raises(WorkloadError, match=f"{word} means something else"):
        Workload(model="m", batch_size=1, input_pipeline=f"my-{word}")


def test_a_model_can_not_be_called_like_a_batch() -> None:
    with pytest.raises(WorkloadError, match="means the batch size"):
        Workload(model="net-b64", batch_size=1)


def test_only_replicated_has_an_all_reduce() -> None:
    with pytest.raises(WorkloadError, match="'parameter_server' has no such choice"):
        Workload(
            model="m", batch_size=1, variable_update=VariableUpdate.PARAMETER_SERVER, all_reduce=AllReduce.HIERARCHICAL
        )


def test_only_a_parameter_server_has_a_place_for_the_parameters() -> None:
    with pytest.raises(WorkloadError, match="'replicated' has no such choice"):
        Workload(model="m", batch_size=1, local_parameter_device=ParameterDevice.GPU)


def test_copies_are_not_packed() -> None:
    with pytest.raises(WorkloadError, match="'copy' sends each gradient by itself"):
        Workload(model="m", batch_size=1, num_packs=4)


@pytest.mark.parametrize("num_packs", [-1, 1000, True, 2.0, "4", None])
def test_packs_are_a_whole_number_from_none(num_packs: Any) -> None:
    with pytest.raises(WorkloadError, match=r"whole number from 0 \(no packing\)"):
        Workload(model="m", batch_size=1, all_reduce=AllReduce.NCCL, num_packs=num_packs)


def test_only_training_has_an_optimizer() -> None:
    with pytest.raises(WorkloadError, match="nothing to do where forward_only=True"):
        Workload(model="m", batch_size=1, optimizer=Optimizer.MOMENTUM, forward_only=True)


@pytest.mark.parametrize(
    ("choice", "said"),
    [({"forward_only": True}, "'forward_only'"), ({"variable_update": "independent"}, "'independent'")],
)
def test_what_fit_can_not_train_is_refused(choice: dict[str, Any], said: str) -> None:
    with pytest.raises(WorkloadError, match=f"use trainer='loop' with {said}"):
        Workload(model="m", batch_size=1, trainer=Trainer.KERAS, **choice)


@pytest.mark.parametrize("field", ["tf32", "xla", "forward_only"])
def test_a_flag_is_true_or_false(field: str) -> None:
    with pytest.raises(WorkloadError, match=f"{field}='no' must be True or False"):
        Workload(**{"model": "m", "batch_size": 1} | {field: "no"})


def test_a_changed_copy_is_checked_like_a_new_one() -> None:
    with pytest.raises(WorkloadError, match="batch_size=0"):
        Workload(model="m", batch_size=1).with_(batch_size=0)
