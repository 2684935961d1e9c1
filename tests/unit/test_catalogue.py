from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_SECONDS

import pytest_tfperf
from pytest_tfperf.core import catalogue
from pytest_tfperf.core.workload import Trainer, VariableUpdate, Workload
from pytest_tfperf.errors import NotBuiltYet, WorkloadError

PACKAGE = Path(pytest_tfperf.__file__).parent
OWN = {**catalogue.models(), **catalogue.pipelines()}


@pytest.fixture
def catalogue_of_its_own() -> Iterator[None]:
    restore = catalogue.forget()
    yield
    restore()


def test_the_synthetic_pipeline_of_workloads_is_known() -> None:
    assert catalogue.pipelines()["device"] == "pytest_tfperf.training.pipelines.device:device"


@pytest.mark.parametrize("name", OWN)
def test_a_name_stands_for_a_function_that_is_there(name: str) -> None:
    module, _, function = OWN[name].partition(":")
    file = PACKAGE.parent / f"{module.replace('.', '/')}.py"
    assert function in {n.name for n in ast.parse(file.read_text()).body if isinstance(n, ast.FunctionDef)}


@pytest.mark.parametrize("name", catalogue.models())
def test_a_model_can_be_named_by_a_workload(name: str) -> None:
    assert Workload.parse(Workload(model=name, batch_size=1).id).model == name


@pytest.mark.parametrize("name", catalogue.pipelines())
def test_a_pipeline_can_be_named_by_a_workload(name: str) -> None:
    assert Workload.parse(Workload(model="m", batch_size=1, input_pipeline=name).id).input_pipeline == name


def test_reading_the_names_imports_no_tensorflow() -> None:
    code = (
        "import sys; from pytest_tfperf.core import catalogue; catalogue.models(); print('tensorflow' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    assert subprocess.check_output(command, text=True, timeout=PATIENCE_SECONDS) == "False\n"


def test_a_path_is_its_own_target() -> None:
    assert catalogue.resolve_model("pkg.nets:build") == "pkg.nets:build"


def test_an_unknown_model_gets_the_nearest_name() -> None:
    with pytest.raises(WorkloadError, match=r"unknown model 'trivail'\. Did you mean 'trivial'\?"):
        catalogue.resolve_model("trivail")


def test_an_unknown_pipeline_is_told_how_to_bring_its_own() -> None:
    with pytest.raises(WorkloadError, match=r"Your own: input_pipeline='package\.module:function'"):
        catalogue.resolve_pipeline("disk")


@pytest.mark.usefixtures("catalogue_of_its_own")
def test_a_registered_name_stands_for_its_target() -> None:
    catalogue.register("models", {"tiny-net": "nets:tiny"})
    assert catalogue.resolve_model("tiny-net") == "nets:tiny"


@pytest.mark.usefixtures("catalogue_of_its_own")
def test_a_worker_is_told_of_registered_names_only() -> None:
    catalogue.register("pipelines", {"disk": "feed:disk"})
    assert catalogue.registered() == {"models": {}, "pipelines": {"disk": "feed:disk"}}


@pytest.mark.usefixtures("catalogue_of_its_own")
def test_our_names_can_not_be_taken() -> None:
    with pytest.raises(WorkloadError, match="'trivial' is one of pytest-tfperf's own models"):
        catalogue.register("models", {"trivial": "nets:mine"})


@pytest.mark.usefixtures("catalogue_of_its_own")
def test_a_target_without_a_function_is_refused() -> None:
    with pytest.raises(WorkloadError, match=r"'mine' = 'nets\.mine': write the function"):
        catalogue.register("models", {"mine": "nets.mine"})


@pytest.mark.usefixtures("catalogue_of_its_own")
@pytest.mark.parametrize("room", ["models", "pipelines"])
def test_one_name_for_two_targets_is_refused(room: str) -> None:
    catalogue.register(room, {"mine": "nets:one"})
    with pytest.raises(WorkloadError, match=f"'mine' names two {room}, 'nets:one' and 'nets:other': give one of"):
        catalogue.register(room, {"mine": "nets:other"})


@pytest.mark.usefixtures("catalogue_of_its_own")
def test_the_same_name_for_the_same_target_may_come_twice() -> None:
    for _ in range(2):
        catalogue.register("models", {"mine": "nets:one"})
    assert catalogue.resolve_model("mine") == "nets:one"


@pytest.mark.usefixtures("catalogue_of_its_own")
def test_names_that_were_forgotten_come_back() -> None:
    catalogue.register("models", {"mine": "nets:one"})
    restore = catalogue.forget()
    catalogue.register("models", {"mine": "nets:other"})
    restore()
    assert catalogue.resolve_model("mine") == "nets:one"


def test_what_can_be_trained_passes() -> None:
    catalogue.check(Workload(model="trivial", batch_size=1))


def test_an_unknown_pipeline_does_not_pass() -> None:
    with pytest.raises(WorkloadError, match="unknown input_pipeline"):
        catalogue.check(Workload(model="trivial", batch_size=1, input_pipeline="disk"))


@pytest.mark.parametrize(
    ("choice", "named"),
    [
        ({"optimizer": "momentum"}, "optimizer"),
        ({"trainer": "keras", "xla": True}, "xla, trainer"),
        ({"forward_only": True}, "forward_only"),
        ({"precision": "mixed_bfloat16"}, "precision"),
        ({"tf32": False}, "tf32"),
        ({"all_reduce": "hierarchical"}, "all_reduce"),
    ],
)
def test_what_says_how_to_train_is_left_out_of_a_pipeline_alone(choice: dict[str, Any], named: str) -> None:
    with pytest.raises(WorkloadError, match=f"nothing trained: leave out {named}$"):
        catalogue.check(Workload(model="trivial", batch_size=1, input_pipeline="imagenet-distortions-only", **choice))


@pytest.mark.parametrize("name", [name for name in catalogue.pipelines() if name.endswith("-only")])
def test_a_pipeline_alone_passes(name: str) -> None:
    catalogue.check(Workload(model="trivial", batch_size=1, input_pipeline=name))


def test_horovod_is_known_and_not_trained_yet() -> None:
    with pytest.raises(NotBuiltYet, match=r"a process for each GPU.*'replicated' trains on the same GPUs"):
        catalogue.check(Workload(model="trivial", batch_size=1, variable_update=VariableUpdate.HOROVOD))


def test_keras_fit_can_be_trained() -> None:
    catalogue.check(Workload(model="trivial", batch_size=1, trainer=Trainer.KERAS))
