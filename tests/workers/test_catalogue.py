"""Names of models and pipelines: those that are shipped, users' own, and what no version can train."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pytest_tfperf
from pytest_tfperf.core.workload import VariableUpdate, Workload
from pytest_tfperf.errors import NotInstalled, WorkloadError
from pytest_tfperf.workers import catalogue

PACKAGE = Path(pytest_tfperf.__file__).parent
SHIPPED = {**catalogue.names("models"), **catalogue.names("pipelines")}


@pytest.fixture
def empty_catalogue() -> Iterator[None]:
    restore = catalogue.forget()
    yield
    restore()


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_name_stands_for_a_function_of_its_file(name: str) -> None:
    assert Workload(model=name, batch_size=1, input_pipeline=name).model == name  # it can be part of an id
    module, _, function = SHIPPED[name].partition(":")
    file = PACKAGE.parent / f"{module.replace('.', '/')}.py"
    assert function in {n.name for n in ast.parse(file.read_text()).body if isinstance(n, ast.FunctionDef)}


def test_an_unknown_name_gets_the_nearest_one_and_the_way_to_name_a_function() -> None:
    with pytest.raises(WorkloadError, match=r"unknown model 'trivail'\. Did you mean 'trivial'\?"):
        catalogue.resolve("model", "trivail")
    with pytest.raises(WorkloadError, match=r"of your own: input_pipeline='package\.module:function'"):
        catalogue.resolve("input_pipeline", "disk")


@pytest.mark.usefixtures("empty_catalogue")
def test_a_registered_name_stands_for_its_target_until_it_is_forgotten() -> None:
    for _ in range(2):  # two conftests may give the same name to the same function
        catalogue.register("pipelines", {"disk": "feed:disk"})
    assert catalogue.resolve("input_pipeline", "disk") == "feed:disk"
    assert catalogue.registered() == {"models": {}, "pipelines": {"disk": "feed:disk"}}
    restore = catalogue.forget()
    assert catalogue.registered() == {"models": {}, "pipelines": {}}
    restore()
    assert catalogue.resolve("input_pipeline", "disk") == "feed:disk"


@pytest.mark.usefixtures("empty_catalogue")
@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"trivial": "nets:mine"}, "'trivial' is one of pytest-tfperf's own models"),
        ({"mine": "nets.mine"}, r"'mine' = 'nets\.mine': write the function"),
        ({"known": "nets:other"}, "'known' names two models, 'nets:one' and 'nets:other': give one of"),
    ],
)
def test_a_name_that_can_not_be_registered_is_refused(names: dict[str, str], message: str) -> None:
    catalogue.register("models", {"known": "nets:one"})
    with pytest.raises(WorkloadError, match=message):
        catalogue.register("models", names)


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"trainer": "keras"},
        {"input_pipeline": "imagenet-only"},
        {"input_pipeline": "imagenet-only", "variable_update": "collective"},
    ],
)
def test_what_this_version_can_train_passes(choice: dict[str, Any]) -> None:
    catalogue.check(Workload(model="trivial", batch_size=1, **choice))


HOROVOD = Workload(model="trivial", batch_size=1, variable_update=VariableUpdate.HOROVOD)


def test_horovod_that_is_not_installed_is_missed_with_the_way_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "horovod", None)  # Python's way to say that a module can't be imported
    with pytest.raises(NotInstalled, match=r"trivial-b1-horovod-device: Horovod is not installed.*docs/cluster\.md"):
        catalogue.check(HOROVOD)


def test_horovod_that_is_installed_can_be_trained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "horovod.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    catalogue.check(HOROVOD)


@pytest.mark.parametrize(
    ("choice", "named"),
    [
        ({"optimizer": "momentum"}, "optimizer"),
        ({"trainer": "keras", "xla": True}, "xla, trainer"),
        ({"forward_only": True, "precision": "mixed_bfloat16", "tf32": False}, "precision, tf32, forward_only"),
        ({"all_reduce": "hierarchical"}, "all_reduce"),
        ({"variable_update": "collective", "all_reduce": "ring", "xla": True}, "all_reduce, xla"),
    ],
)
def test_a_pipeline_without_training_takes_no_training_options(choice: dict[str, Any], named: str) -> None:
    with pytest.raises(WorkloadError, match=f"measured without training: leave out {named}$"):
        catalogue.check(Workload(model="trivial", batch_size=1, input_pipeline="imagenet-distortions-only", **choice))
