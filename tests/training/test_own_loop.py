"""A training that a user brings as an object."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from building import workload_of

from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.loading import load_own
from pytest_tfperf.training.loop import OwnLoop


def training(run: Any = lambda steps: None, examples: Any = 8, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(run=run, examples_per_step=examples, **more)


def test_its_function_gets_the_batch_size_and_the_devices(cpus: list[str]) -> None:
    loop = load_own(workload_of(model="jobs:counting", batch_size=16, trainer="own"), cpus[:2])
    assert (loop.examples_per_step, loop.unit, loop.replicas) == (32, "pairs", 2)


def test_a_window_takes_the_steps_that_it_is_asked_for_and_has_the_loss_that_is_returned(cpus: list[str]) -> None:
    loop = OwnLoop(training(lambda steps: steps / 10), cpus[:1])
    assert (loop.run(3), loop.run(5), loop.unit) == (0.3, 0.5, "examples")
    assert OwnLoop(training(), cpus[:1]).run(1) is None


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (SimpleNamespace(run=print), "needs an object with a method run\\(steps\\) and an attribute examples_per_step"),
        (SimpleNamespace(examples_per_step=1), "it returned SimpleNamespace with examples_per_step=1"),
        (training(examples=0), "examples_per_step=0"),
        (training(examples=1.5), "examples_per_step=1.5"),
        (training(unit="tokens/s"), "unit='tokens/s': write the word"),
        (training(unit=""), "unit='': write the word"),
    ],
)
def test_an_object_that_cannot_be_measured_is_refused(cpus: list[str], own: Any, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        OwnLoop(own, cpus[:1])


@pytest.mark.parametrize(
    "choices",
    [{"xla": True}, {"input_pipeline": "host"}, {"variable_update": "horovod"}, {"all_reduce": "hierarchical"}],
)
def test_a_workload_leaves_everything_to_it(choices: dict[str, Any]) -> None:
    with pytest.raises(WorkloadError, match=f"trainer='own' leaves everything.*: leave out {next(iter(choices))}"):
        workload_of(trainer="own", **choices)
