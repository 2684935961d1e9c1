"""Parameters that no workload can have are faults; those that only the test knows are not."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_tfperf.core.workload import Workload
from pytest_tfperf.session.selecting import faults


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("model", "resnet500", "unknown model 'resnet500'. Did you mean 'resnet50'?"),
        ("model", "ResNet 50", "model='ResNet 50' is not a name"),
        ("input_pipeline", "devise", "unknown input_pipeline 'devise'. Did you mean 'device'?"),
        ("variable_update", "replicate", "unknown variable_update 'replicate'. Did you mean 'replicated'?"),
        ("batch_size", 0, "batch_size=0: examples per replica"),
        ("batch_size", 64.0, "batch_size=64.0: examples per replica"),
        ("steps", 0, "steps=0: at least one step"),
        ("warmup_steps", -1, "warmup_steps=-1: give a whole number"),
        ("tolerance", 5, "tolerance=5: give a fraction above 0, up to 0.5"),
        ("anything", Workload(model="resnet500", batch_size=1), "unknown model 'resnet500'."),
        ("anything", Workload(model="trivial", batch_size=1, input_pipeline="devise"), "unknown input_pipeline"),
    ],
)
def test_a_value_that_no_workload_can_have_is_a_fault(name: str, value: Any, message: str) -> None:
    (fault,) = faults({name: value})
    assert str(fault).startswith(message)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "resnet50"),
        ("model", "pkg.nets:build"),
        ("model", "detector"),
        ("model", object()),
        ("variable_update", "horovod"),
        ("xla", "on"),
        ("batch_size", 64),
        ("batch_size", "large"),
        ("tolerance", 0.05),
        ("tolerance", None),
        ("gpus", 0),
        ("anything", "resnet500"),
        ("anything", Workload(model="trivial", batch_size=1, variable_update="horovod")),
    ],
)
def test_a_valid_value_or_one_of_the_tests_own_is_no_fault(name: str, value: Any) -> None:
    assert faults({name: value}) == []


def test_each_fault_is_reported_and_values_that_do_not_suit_each_other_are_not() -> None:
    assert len(faults({"model": "resnet500", "trainer": "fit", "steps": 0})) == 3
    assert faults({"variable_update": "parameter_server", "all_reduce": "nccl"}) == []
