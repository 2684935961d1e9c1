"""Models, pipelines and choices that can't be trained: what the user is told, word for word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from building import workload_of

from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.loading import input_spec, load_model, load_pipeline, loop_for
from pytest_tfperf.training.strategies import strategy_for
from tests.helpers.expected import SameTexts


def jobs(model: str, pipeline: str = "device", **more: Any) -> dict[str, Any]:
    return {"model": f"jobs:{model}", "input_pipeline": pipeline} | more


def pipeline(name: str, **more: Any) -> dict[str, Any]:
    return {"input_pipeline": name} | more


MODELS = {
    "no such module": {"model": "no_such_module:f"},
    "no such function": {"model": "nets:number"},
    "a function that raises": {"model": "nets:broken"},
    "no model": {"model": "nets:not_a_model"},
    "no keras.Input": {"model": "nets:unbuilt"},
    "several outputs, not compiled": {"model": "nets:features"},
    "run_eagerly": jobs("eager", "jobs:lines"),
    "steps_per_execution": jobs("several_at_once", "jobs:lines", trainer="keras"),
    "an optimizer beside its own": jobs("own_step", "jobs:lines", optimizer="momentum"),
    "independent, but compiled": jobs("own_step", "jobs:lines", variable_update="independent"),
    "XLA and copies": jobs("classifier", xla=True),
}

PIPELINES = {
    "two batches": pipeline("feeds:of_two_batches"),
    "images alone": pipeline("feeds:images_alone"),
    "too small": pipeline("feeds:too_small"),
    "text": pipeline("feeds:of_text"),
    "fractional labels": pipeline("feeds:of_fractional_labels"),
    "nothing": pipeline("feeds:nothing"),
    "ends in mid-run": pipeline("feeds:generated"),
    "ends in mid-run, without training": pipeline("feeds:generated_only"),
    "an optimizer without training": pipeline("feeds:sliced_only", optimizer="momentum"),
    "a model that does not say what it takes": jobs("own_step"),
    "synthetic data of unknown length": jobs("variable_length"),
    "of any length": jobs("variable_length", "jobs:of_any_length"),
    "ragged": jobs("variable_length", "jobs:ragged"),
    "of another batch size": jobs("sentences", "jobs:of_another_batch"),
    "of other names": jobs("two_inputs", "jobs:by_name"),
    "images for a model of texts": jobs("sentences", "imagenet"),
}

TOKENS = {
    "inputs of two lengths": jobs("two_inputs"),
    "texts of two lengths": jobs("translator"),
    "no such input": jobs("translator", tokens_of="text"),
    "several inputs of the name": jobs("of_nested_texts", "jobs:nested_texts", tokens_of="ids"),
    "no length": jobs("one_number", "jobs:numbers"),
    "no length in the named one": jobs("one_number", "jobs:numbers", tokens_of="number"),
}


def refusal(devices: list[str], photographs: Path, choices: dict[str, Any]) -> str:
    workload = workload_of(**choices)
    strategy = strategy_for(workload, devices)
    try:
        model = load_model(workload, strategy)
        spec = input_spec(workload, model, strategy, data_dir=str(photographs))
        loop_for(workload, strategy, model, load_pipeline(workload, spec)).run(4)
    except WorkloadError as error:
        return str(error)
    raise AssertionError(f"{choices} is trained")


def test_models_that_can_not_be_trained(cpus: list[str], photographs: Path, same_texts: SameTexts) -> None:
    same_texts("models", {case: refusal(cpus[:2], photographs, choices) for case, choices in MODELS.items()})


def test_pipelines_that_can_not_be_used(cpus: list[str], photographs: Path, same_texts: SameTexts) -> None:
    same_texts("pipelines", {case: refusal(cpus[:1], photographs, choices) for case, choices in PIPELINES.items()})


def test_tokens_are_counted_only_where_it_is_plain_which_input_holds_them(
    cpus: list[str], photographs: Path, same_texts: SameTexts
) -> None:
    texts = {case: refusal(cpus[:1], photographs, {**choices, "unit": "tokens"}) for case, choices in TOKENS.items()}
    same_texts("tokens", texts)
